// Launches device programs on a GPU. No CUDA type appears here, so that host code needs no CUDA
// headers.
#pragma once

#include <cstdint>

#include "device/launch.h"
#include "device/probe.h"
#include "device/stream.h"

namespace rondo::kernels::cuda {

/// Loads all kernels to the current device. By default CUDA loads a kernel at its first use (unless
/// CUDA_MODULE_LOADING is EAGER), and may then wait for running kernels, which may be kernels of
/// other ranks that wait for this one. Throws as PlanFunction().
void loadPlanKernels();

/// The kernel that runs a program, for the device that is current at construction. Made once, when
/// a call is bound.
class PlanFunction {
 public:
  /// Throws Error(unsupported) if there is no usable GPU, if the library has no code for it, or if
  /// a step has more inputs and outputs than a block has room for.
  explicit PlanFunction(const device::ProgramHeader& program);

  /// Blocks that can be resident on the device at once while nothing else runs.
  int residentBlocks() const { return resident_; }

  /// Makes one launch of ProgramHeader::blocks() blocks on `stream`. Allocates nothing and does not
  /// wait; may be captured in a graph. All data of `launch` must stay valid until the launch, or
  /// the last replay of the graph, has run; tables and rings see LaunchFunction::launch(). The
  /// device of the construction must be current. Throws Error(unsupported) if the blocks cannot all
  /// be resident at once, Error(system) if the launch fails.
  void launch(const device::Launch& launch, device::Stream stream) const;

 private:
  const void* kernel_;
  std::size_t shared_bytes_;
  int resident_ = 0;
  bool early_ = false; ///< a launch may start while the kernel ahead of it on the stream ends
};

/// The kernel of batches, for the device that is current at construction.
class PlanBatchFunction {
 public:
  /// Throws Error(unsupported) if there is no usable GPU, or if the library has no code for it.
  PlanBatchFunction();

  /// Makes one launch of Batch::blocks() blocks, as PlanFunction::launch(). The data that the jobs
  /// point to must stay valid; the batch itself need not.
  void launch(const device::Batch& batch, device::Stream stream) const;

 private:
  int resident_;
};

/// Launches one block on `stream` that tests a link. Throws as PlanFunction::launch().
void launchProbe(const device::Probe& probe, device::Stream stream);
/// The same for the switch; the device must support multicast.
void launchSwitchProbe(const device::Probe& probe, device::Stream stream);

} // namespace rondo::kernels::cuda
