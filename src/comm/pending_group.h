// Calls of this thread that wait for the end of its outermost Group.
#pragma once

#include <memory>

#include "comm/work_state.h"

namespace rondo::comm {

/// All functions speak of the calling thread.
class PendingGroup {
 public:
  static bool open();
  static std::shared_ptr<WorkState> add(CommunicatorImpl& communicator, const Call& call);
  static void enter();
  /// At the end of the outermost Group: starts what is held; the state stands for all of it.
  /// Elsewhere null. `attended`: the caller goes on to wait for it.
  static std::shared_ptr<WorkState> leave(bool attended);
  /// At the end of the outermost Group: forgets what is held.
  static void drop();
  /// Seconds that what is held will take.
  static double predict();
};

} // namespace rondo::comm
