// Look-up and launch of the plan kernels.
#include "kernels/cuda/plan/launch.h"

#include <string>

#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/plan/families.h"
#include "kernels/cuda/plan/move.cuh"
#include "kernels/cuda/plan/staged.cuh"
#include "kernels/cuda/tuning.h"

namespace rondo::kernels::cuda {
namespace {

/// Shared memory that a block may use without a special attribute, less what planKernel() declares.
constexpr std::size_t kSharedBytes = (48 << 10) - sizeof(StagedLaunch);

const void* lookUp(DataType type, ReduceOp::Kind op) {
  switch (sizeOf(type)) {
    case 1: return isFloat(type) ? float8Plan(type, op) : integer8Plan(type, op);
    case 2: return isFloat(type) ? halfPlan(type, op) : integer16Plan(type, op);
    case 4: return isFloat(type) ? floatPlan(type, op) : integer32Plan(type, op);
    case 8: return isFloat(type) ? floatPlan(type, op) : integer64Plan(type, op);
  }
  return nullptr;
}

cudaFuncAttributes load(const void* kernel) {
  cudaFuncAttributes about{};
  check(cudaFuncGetAttributes(&about, kernel), "no kernel for this GPU");
  return about;
}

/// Whether a launch may start before the kernel ahead of it on the stream has ended. The kernel's
/// code must wait for that end (EarlyBlock, since sm_90), and streams with such launches must be
/// capturable (since CUDA 12.3).
bool startsEarly(const void* kernel) {
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cannot read the version of the CUDA driver");
  return CUDART_VERSION >= 12030 && driver >= 12030 && load(kernel).ptxVersion >= 90;
}

/// Launches in another memory-synchronization domain than the default one, on devices that have
/// several. A fence at system scope waits for all earlier writes of its domain, so it does not wait
/// for writes of the program's other kernels. The stream orders what those wrote before and read
/// after.
///
/// `early`: the launch may start when each block of the kernel ahead of it on the stream has called
/// EarlyBlock::ending() or has ended.
void launchApart(const void* kernel, std::uint32_t blocks, std::uint32_t threads, void* argument,
                 std::size_t shared_bytes, device::Stream stream, const char* failure,
                 bool early = false) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeMemSyncDomain;
  attributes[0].val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes;
  config.numAttrs = early ? 2 : 1;
  check(cudaLaunchKernelExC(&config, kernel, &argument), failure);
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
      if (const void* kernel = lookUp(type, op.kind())) load(kernel);
  for (const DataType type : kDataTypes)
    for (const ReduceOp op : kReduceOps)
      if (const void* kernel = switchPlan(type, op.kind())) load(kernel);
  load(batchPlan());
  load(probePlan());
  load(switchProbePlan());
}

PlanFunction::PlanFunction(const device::ProgramHeader& program)
    : kernel_(program.is_barrier ? switchPlan(program.type, program.op)
                                 : lookUp(program.type, program.op)),
      shared_bytes_(program.max_places * sizeof(LiveOperand)) {
  if (!kernel_)
    throw Error(ErrorCode::unsupported, "no kernel can run " + std::string(name(program.type)) +
                                            " programs of this operator");
  if (shared_bytes_ > kSharedBytes)
    throw Error(ErrorCode::unsupported,
                "a step of the plan has " + std::to_string(program.max_places) +
                    " inputs and outputs, but a thread block has room for " +
                    std::to_string(kSharedBytes / sizeof(LiveOperand)));
  resident_ = cuda::residentBlocks(kernel_, kPlanThreads, shared_bytes_);
  early_ = !program.is_barrier && startsEarly(kernel_);
}

void PlanFunction::launch(const device::Launch& launch, device::Stream stream) const {
  const std::uint32_t blocks = launch.program.blocks();
  if (blocks == 0) return;
  checkResident(blocks, resident_);
  device::Launch argument = launch;
  launchApart(kernel_, blocks, kPlanThreads, &argument, shared_bytes_, stream,
              "cannot launch a plan", early_);
}

PlanBatchFunction::PlanBatchFunction() : resident_(residentBlocks(batchPlan(), kPlanThreads)) {}

void PlanBatchFunction::launch(const device::Batch& batch, device::Stream stream) const {
  checkResident(batch.blocks(), resident_);
  launchApart(batchPlan(), batch.blocks(), kPlanThreads, const_cast<device::Batch*>(&batch), 0,
              stream, "cannot launch sends and receives");
}

void launchProbe(const device::Probe& probe, device::Stream stream) {
  launchApart(probePlan(), 1, device::kProbeWords, const_cast<device::Probe*>(&probe), 0, stream,
              "cannot launch the test of a link");
}

void launchSwitchProbe(const device::Probe& probe, device::Stream stream) {
  launchApart(switchProbePlan(), 1, device::kProbeWords, const_cast<device::Probe*>(&probe), 0,
              stream, "cannot launch the test of the switch");
}

} // namespace rondo::kernels::cuda
