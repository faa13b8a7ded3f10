// The state of a Work.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "comm/call.h"
#include "engine/engine.h"
#include "rondo/error.h"
#include "rondo/stream.h"
#include "rondo/work.h"

namespace rondo::comm {

class CommunicatorImpl;

/// One asynchronous call, or a group of them.
class WorkState : public std::enable_shared_from_this<WorkState> {
 public:
  /// Empty for a group. It expires when the Communicator is destroyed; the call has ended by then.
  std::weak_ptr<CommunicatorImpl> communicator;
  std::unique_ptr<const KeptCall> call; ///< only in a Group
  plan::Choice named;                   ///< only in a Group: the algorithm that the call names
  Stream stream;                        ///< only in a Group: the stream of the call
  engine::Run run;
  std::vector<std::shared_ptr<WorkState>> parts; ///< the calls of a group
  std::atomic<bool> held{false};                 ///< the Group has not started it yet

  /// Whether the call, or every call of the group, is done.
  bool done() const;
  /// Says that a thread waits from now on, so that deadlines count.
  void attend();
  /// Throws the call's error; for a group the first error.
  void rethrow() const;
  /// Ends a call that the engine does not have.
  void endAtOnce(const Error& error);

  const plan::Choice* namedOrNull() const { return named.algorithm ? &named : nullptr; }

  static bool ended(const Work& work) { return !work.state_ || work.state_->done(); }
  static Work handle(std::shared_ptr<WorkState> state) { return Work(std::move(state)); }
};

} // namespace rondo::comm
