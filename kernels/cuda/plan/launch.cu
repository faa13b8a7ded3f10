// Look-up and launch of the plan kernels.
#include "kernels/cuda/plan/launch.h"

#include <string>

#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/plan/families.h"
#include "kernels/cuda/plan/move.cuh"
#include "kernels/cuda/tuning.h"

namespace rondo::kernels::cuda {
namespace {

/// Shared memory that a block may use without a special attribute.
constexpr std::size_t kSharedBytes = 48 << 10;

const void* lookUp(DataType type, ReduceOp::Kind op) {
  switch (sizeOf(type)) {
    case 1: return isFloat(type) ? float8Plan(type, op) : integer8Plan(type, op);
    case 2: return isFloat(type) ? halfPlan(type, op) : integer16Plan(type, op);
    case 4: return isFloat(type) ? floatPlan(type, op) : integer32Plan(type, op);
    case 8: return isFloat(type) ? floatPlan(type, op) : integer64Plan(type, op);
  }
  return nullptr;
}

/// Also loads the kernel.
cudaFuncAttributes attributesOf(const void* kernel) {
  cudaFuncAttributes about{};
  check(cudaFuncGetAttributes(&about, kernel), "no kernel for this GPU");
  return about;
}

/// Whether launches of a plan kernel may start before the kernel ahead of them on the stream has
/// ended: the code must wait for that end, which EarlyBlock does since sm_90. Before CUDA 12.3 such
/// launches cannot be captured in a graph.
bool startsEarly(const cudaFuncAttributes& about) {
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cannot read the version of the CUDA driver");
  constexpr int kCaptures = 12030;
  return CUDART_VERSION >= kCaptures && driver >= kCaptures && about.ptxVersion >= 90;
}

/// A kernel, and the configuration of its launches.
struct Shape {
  const void* kernel;
  std::uint32_t blocks, threads;
  std::size_t shared_bytes = 0; ///< dynamic
  /// The launch may start when each block of the kernel ahead of it on the stream has called
  /// EarlyBlock::ending() or has ended.
  bool early = false;
};

/// Launches in another memory-synchronization domain than the default one, on devices that have
/// several. A fence at system scope waits for all earlier writes of its domain, so it does not wait
/// for writes of the program's other kernels. The stream orders what those wrote before and read
/// after. `failure`: what an error's text begins with.
void launchApart(const Shape& shape, void* argument, device::Stream stream, const char* failure) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeMemSyncDomain;
  attributes[0].val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(shape.blocks);
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes;
  config.numAttrs = shape.early ? 2 : 1;
  check(cudaLaunchKernelExC(&config, shape.kernel, &argument), failure);
}

void checkResident(std::uint32_t blocks, int resident) {
  if (blocks > static_cast<std::uint32_t>(resident))
    throw Error(ErrorCode::unsupported, "the launch needs " + std::to_string(blocks) +
                                            " blocks at the same time, but the GPU holds " +
                                            std::to_string(resident));
}

} // namespace

void loadPlanKernels() {
  for (const DataType type : kDataTypes)
    for (const ReduceOp op : kReduceOps)
      if (const void* kernel = lookUp(type, op.kind())) attributesOf(kernel);
  for (const DataType type : kDataTypes)
    for (const ReduceOp op : kReduceOps)
      if (const void* kernel = switchPlan(type, op.kind())) attributesOf(kernel);
  attributesOf(batchPlan());
  attributesOf(probePlan());
  attributesOf(switchProbePlan());
}

PlanFunction::PlanFunction(const device::ProgramHeader& program)
    : kernel_(program.is_barrier ? switchPlan(program.type, program.op)
                                 : lookUp(program.type, program.op)),
      shared_bytes_(program.max_places * sizeof(LiveOperand)) {
  if (!kernel_)
    throw Error(ErrorCode::unsupported, "no kernel can run " + std::string(name(program.type)) +
                                            " programs of this operator");
  const cudaFuncAttributes about = attributesOf(kernel_);
  const std::size_t room = kSharedBytes - about.sharedSizeBytes;
  if (shared_bytes_ > room)
    throw Error(ErrorCode::unsupported,
                "a step of the plan has " + std::to_string(program.max_places) +
                    " inputs and outputs, but a thread block has room for " +
                    std::to_string(room / sizeof(LiveOperand)));
  resident_ = cuda::residentBlocks(kernel_, kPlanThreads, shared_bytes_);
  early_ = !program.is_barrier && startsEarly(about);
}

void PlanFunction::launch(const device::Launch& launch, device::Stream stream) const {
  const std::uint32_t blocks = launch.program.blocks();
  if (blocks == 0) return;
  checkResident(blocks, resident_);
  device::Launch argument = launch;
  launchApart({kernel_, blocks, kPlanThreads, shared_bytes_, early_}, &argument, stream,
              "cannot launch a plan");
}

PlanBatchFunction::PlanBatchFunction() : resident_(residentBlocks(batchPlan(), kPlanThreads)) {}

void PlanBatchFunction::launch(const device::Batch& batch, device::Stream stream) const {
  checkResident(batch.blocks(), resident_);
  launchApart({batchPlan(), batch.blocks(), kPlanThreads}, const_cast<device::Batch*>(&batch),
              stream, "cannot launch sends and receives");
}

void launchProbe(const device::Probe& probe, device::Stream stream) {
  launchApart({probePlan(), 1, device::kProbeWords}, const_cast<device::Probe*>(&probe), stream,
              "cannot launch the test of a link");
}

void launchSwitchProbe(const device::Probe& probe, device::Stream stream) {
  launchApart({switchProbePlan(), 1, device::kProbeWords}, const_cast<device::Probe*>(&probe),
              stream, "cannot launch the test of the switch");
}

} // namespace rondo::kernels::cuda
