// Receives by tag and from any rank, which the order of the calls alone cannot match.
#pragma once

#include <ATen/core/Tensor.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "compat/torch/tensors.h"
#include "rondo/communicator.h"
#include "rondo/work.h"

namespace rondo::compat {

class Mailroom;

/// A pending receive. Any thread may call.
class Message {
 public:
  static constexpr int kAnyRank = -1;
  /// The message that it waits for.
  struct Wanted {
    Array into;
    at::Tensor owner; ///< keeps the memory of `into` alive
    int source = kAnyRank;
    int tag = 0;
  };

  Message(std::shared_ptr<Mailroom> room, Wanted wanted);
  ~Message();

  /// Returns when the message has arrived. Throws the receive's Error. After the group's timeout,
  /// throws Error(timeout), which all ranks of the group get.
  void wait();
  /// As wait(), for at most `limit`. Returns false if the message has not arrived yet.
  bool waitFor(std::chrono::milliseconds limit);
  /// Ends the receive and the group with Error(timeout), unless the message has arrived.
  void giveUp(std::chrono::milliseconds after);
  /// Takes the receive back, unless its message has begun to arrive in its tensor.
  void cancel();
  bool done() const;
  /// The rank that sent it, once it has arrived.
  int from() const;

 private:
  friend class Mailroom;
  struct State;
  const std::shared_ptr<Mailroom> room_;
  const Wanted wanted_;
  const std::unique_ptr<State> state_; ///< guarded by the Mailroom's mutex
};

/// Any thread may call, except for constructor and destructor.
///
/// Messages with a tag use a communicator of their own. A header with tag, count and type precedes
/// each. A message without a matching receive is kept in memory, so tags may be received in any
/// order. Messages without a tag (tag 0) have no header; a receive from any rank polls which rank
/// has sent one. One thread does both. It exists from the first receive on, and sleeps while none
/// is pending. Receives of one tag from one rank get the messages in the order in which they were
/// sent.
class Messenger {
 public:
  /// `plain`: the group's communicator, which must outlive this object. `tagged`: another
  /// communicator of the same ranks.
  Messenger(Communicator& plain, Communicator tagged);
  /// Ends receives that are pending with an Error.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  void setTimeout(std::chrono::milliseconds timeout);
  void abort(const std::string& reason);

  /// Sends with a tag other than 0. Keep `memory` (an output) until the Work is done.
  rondo::Work send(const Array& from, int to, int tag, std::shared_ptr<void>& memory);
  std::shared_ptr<Message> receive(const Message::Wanted& wanted);
  /// Whether a receive without a tag waits here: one from any rank, or one that was made after it.
  /// Later receives without a tag must then be made here too, to keep their order.
  bool pendingUntagged() const;

 private:
  const std::shared_ptr<Mailroom> room_;
  std::once_flag started_;
  std::thread thread_; ///< since the first receive
  const pid_t process_;
};

} // namespace rondo::compat
