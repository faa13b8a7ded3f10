// Receives that the order of the calls alone does not match: by tag, and from any rank.
#pragma once

#include <ATen/core/Tensor.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <thread>

#include "compat/torch/tensors.h"
#include "rondo/communicator.h"
#include "rondo/work.h"

namespace rondo::compat {

class Mailroom;

/// A receive. Any thread may call.
class Message {
 public:
  static constexpr int kAnyRank = -1;
  /// What it waits for.
  struct Wanted {
    Array into;
    at::Tensor owner; ///< of the memory, which must live as long
    int source = kAnyRank;
    int tag = 0;
  };

  Message(std::shared_ptr<Mailroom> room, Wanted wanted);
  ~Message();

  /// Returns when the message has arrived. Throws its Error; when the group's timeout passes,
  /// Error(timeout), which all ranks of the group then get.
  void wait();
  /// As wait(), for at most `limit`; false: not arrived yet.
  bool waitFor(std::chrono::milliseconds limit);
  /// Ends the receive and the group with Error(timeout), unless the message has arrived.
  void giveUp(std::chrono::milliseconds after);
  bool done() const;
  /// The rank that sent it, once it has arrived.
  int from() const;

 private:
  friend class Mailroom;
  struct State;
  const std::shared_ptr<Mailroom> room_;
  const Wanted wanted_;
  const std::unique_ptr<State> state_; ///< guarded by the room's mutex
};

/// Messages with a tag go over a communicator of their own, each after a header that says what it
/// is. One that no receive wants yet is kept in memory, so tags may be received in any order.
/// Messages without a tag (tag 0) have no header: a receive from any rank looks which rank has sent
/// one. Both are done by one thread, which exists from the first receive on and sleeps while none
/// is pending. Receives of one tag from one rank get the messages in the order in which they were
/// sent, the receive that was called first the first one.
class Messenger {
 public:
  /// `plain`: the group's, which lives as long as this; `tagged`: of the same ranks.
  Messenger(Communicator& plain, Communicator tagged);
  /// Ends receives that are pending with an Error.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  void setTimeout(std::chrono::milliseconds timeout);
  void abort(const std::string& reason);

  /// With a tag other than 0. `memory` must live until the Work is done.
  rondo::Work send(const Array& from, int to, int tag, std::shared_ptr<void>& memory);
  std::shared_ptr<Message> receive(const Message::Wanted& wanted);
  /// Whether a receive without a tag must be made here, since one from any rank was called before.
  bool pendingFromAny() const;

 private:
  const std::shared_ptr<Mailroom> room_;
  std::thread thread_;
  const pid_t process_;
};

} // namespace rondo::compat
