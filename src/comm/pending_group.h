// The calling thread's recorded calls, which start when its outermost Group ends.
#pragma once

#include <memory>

#include "comm/work_state.h"

namespace rondo::comm {

/// All functions work on the calling thread's group.
class PendingGroup {
 public:
  static bool open() { return depth_ > 0; }
  /// `named`: see sign().
  static std::shared_ptr<WorkState> add(CommunicatorImpl& communicator, const Call& call,
                                        const plan::Choice* named);
  /// Returns the number of calls that are recorded already.
  static std::size_t enter();
  /// At the end of the outermost Group: starts the recorded calls and returns one state for all of
  /// them. In an inner Group: returns null. `attended`: the caller will wait for it.
  static std::shared_ptr<WorkState> leave(bool attended);
  /// At the end of the outermost Group: drops the recorded calls, which end with Error(aborted).
  static void drop();
  /// At the end of a Group that an exception leaves: also in an inner Group drops the calls that
  /// were recorded since `begin`, the result of enter().
  static void drop(std::size_t begin);
  /// Predicted duration of the recorded calls, in seconds.
  static double predict();

 private:
  /// Drops the calls of a thread that ends while a Group is open.
  struct AtThreadEnd;

  static constinit thread_local int depth_; ///< number of Groups within each other
};

} // namespace rondo::comm
