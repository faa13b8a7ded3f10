// The calling thread's group: the calls between ncclGroupStart() and ncclGroupEnd().
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "compat/nccl/handle.h"

namespace rondo::compat::nccl {

/// All functions act on the calling thread's groups. Groups nest: calls run at the end of the
/// outermost one.
class Groups {
 public:
  static bool open();
  static void start();
  /// Waits for communicators that were created in the group, then makes its calls. If a call in the
  /// group had an error, none of its calls are made, the communicators that are not created yet are
  /// aborted, and the result is that error.
  static ncclResult_t end();
  /// Ends the group without making its calls. Returns the predicted time of the calls in
  /// microseconds.
  static float simulate();

  /// Adds a communicator that is being created. `blocking`: the group's end waits for it. `joins`:
  /// this rank is a member of it.
  static void add(ncclComm& making, bool blocking, bool joins);
  /// Adds a call of a rank on a stream.
  static void add(const std::shared_ptr<Member>& member, Work work, cudaStream_t stream);
  /// Records the error of a call as the error of the open group. Does nothing without a group.
  static void fail(const Refusal& refusal);
};

} // namespace rondo::compat::nccl
