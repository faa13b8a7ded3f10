// ncclGroupStart() to ncclGroupEnd(), of the calling thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "compat/nccl/handle.h"

namespace rondo::compat::nccl {

/// All functions speak of the calling thread's groups, which nest; the outermost counts.
class Groups {
 public:
  static bool open();
  static void start();
  /// Waits for communicators that were made in the group, then makes its calls. An error within the
  /// group is its result, and none of its calls are made.
  static ncclResult_t end();
  /// Ends it without making its calls: how long they would take, microseconds.
  static float simulate();

  /// The group waits for it at its end.
  static void add(ncclComm& making);
  /// The rank has a call in the group, on that stream.
  static void add(const std::shared_ptr<Member>& member, cudaStream_t stream);
  /// An error of a call in a group is the group's.
  static void fail(const Refusal& refusal);
};

} // namespace rondo::compat::nccl
