// How device programs get onto a GPU. No CUDA type appears here, so that host code needs no CUDA
// headers.
#pragma once

#include <cstdint>

#include "device/launch.h"
#include "device/probe.h"
#include "device/stream.h"

namespace rondo::kernels::cuda {

/// Brings every kernel onto the current device. CUDA does so when one is first used (unless
/// CUDA_MODULE_LOADING says EAGER), and may then wait for what runs there: for kernels of ranks
/// that wait for this one. Throws as PlanFunction().
void loadPlanKernels();

/// The kernel that serves a program, for the device that is current when it is looked up: done
/// once, when a call is bound.
class PlanFunction {
 public:
  /// Throws Error(unsupported) where there is no usable GPU, the library has no code for it, or a
  /// step has more inputs and outputs than a block can keep.
  explicit PlanFunction(const device::ProgramHeader& program);

  /// Blocks that the device holds at once while it runs nothing else.
  int residentBlocks() const { return resident_; }

  /// One launch of ProgramHeader::blocks() blocks on `stream`: nothing allocated, nothing waited
  /// for; may be captured in a graph. All of `launch` must stay valid until it, and the graph's
  /// last replay, has run. The device of the look-up must be current. Throws Error(unsupported)
  /// when the blocks are not resident at once, Error(system) if the launch fails.
  void launch(const device::Launch& launch, device::Stream stream) const;

 private:
  const void* kernel_;
  std::size_t shared_bytes_;
  int resident_ = 0;
};

/// The kernel of batches, for the device that is current when this is made.
class PlanBatchFunction {
 public:
  /// Throws Error(unsupported) where there is no usable GPU, or the library has no code for it.
  PlanBatchFunction();

  /// One launch of Batch::blocks() blocks, as PlanFunction::launch(). What the jobs point to must
  /// stay valid, the batch need not.
  void launch(const device::Batch& batch, device::Stream stream) const;

 private:
  int resident_;
};

/// One block on `stream` that probes. Throws as PlanFunction::launch().
void launchProbe(const device::Probe& probe, device::Stream stream);
/// The same of the switch; the device multicasts.
void launchSwitchProbe(const device::Probe& probe, device::Stream stream);

} // namespace rondo::kernels::cuda
