// Launches of the fake: runs the plan kernel's source as host code, with a thread for each block.
#include <array>
#include <string>

#include "device/cuda/fake/entry.h"
#include "device/cuda/fake/memory.h"
#include "device/launch.h"
#include "kernels/cuda/plan/families.h"
#include "support/host_block.h"
#include "support/host_probe.h"

using rondo::DataType;
using rondo::ReduceOp;
using rondo::device::Batch;
using rondo::device::Launch;
using rondo::test::BlockMemory;
using rondo::test::FakeCuda;
using rondo::test::LaneFunction;
using rondo::test::fake::Entry;

namespace {

/// The object at a kernel's address.
struct Kernel {
  LaneFunction lane = nullptr; ///< of a plan kernel
  bool waits = false;          ///< for the kernel ahead of it on the stream
  bool loaded = false;
};
Kernel batch_kernel, probe_kernel, switch_probe_kernel;

Kernel* kernelOf(DataType type, ReduceOp::Kind op, bool meets = false) {
  static std::array<std::array<std::array<Kernel, 16>, 16>, 2> kernels;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto& all = kernels[meets ? 1 : 0];
  Kernel& kernel = all.at(static_cast<std::size_t>(type)).at(static_cast<std::size_t>(op));
  rondo::device::ProgramHeader program;
  program.type = type;
  program.op = op;
  program.is_barrier = meets;
  if (!kernel.lane) {
    kernel.lane = rondo::test::laneFunction(program);
    kernel.waits = !meets;
  }
  return kernel.lane ? &kernel : nullptr;
}

void load(Entry& entry, const void* kernel, int device) {
  bool& loaded = const_cast<Kernel*>(static_cast<const Kernel*>(kernel))->loaded;
  if (!loaded) entry.state.waitForKernels(entry.lock, device, "loading a kernel");
  loaded = true;
}

/// Adds all memory that a launch refers to.
void addMemory(const Launch& launch, std::vector<const void*>& memory) {
  const auto add = [&memory](const void* at) {
    if (at) memory.push_back(at);
  };
  for (const void* at :
       {static_cast<const void*>(launch.program.lane), static_cast<const void*>(launch.clocks),
        static_cast<const void*>(launch.halt), static_cast<const void*>(launch.panel),
        static_cast<const void*>(launch.window.own), static_cast<const void*>(launch.window.all),
        static_cast<const void*>(launch.window.meetings)})
    add(at);
  const std::uint32_t rings = launch.program.channels * launch.program.copies;
  for (std::uint32_t r = 0; r < rings; ++r) {
    const rondo::device::Ring& ring = launch.rings[r];
    for (const void* at :
         {static_cast<const void*>(ring.published), static_cast<const void*>(ring.consumed),
          static_cast<const void*>(ring.position)})
      add(at);
  }
}

/// Complains about memory that the device may not access.
void checkAccess(FakeCuda::State& state, const FakeCuda::State::Running& kernel) {
  for (const void* at : kernel.memory) {
    if (rondo::test::fake::isPinned(at)) continue;
    const auto* region = state.regionOf(at);
    if (!region) state.complain("a kernel was given memory that is not allocated");
    else if (region->access && !region->access->contains(kernel.device))
      state.complain("a kernel on device " + std::to_string(kernel.device) +
                     " was given memory of device " + std::to_string(region->device) +
                     " that it has no access to");
  }
}

/// Whether the address is another device's memory.
bool isElsewhere(FakeCuda::State& state, int device, const void* at) {
  const std::lock_guard lock(state.mutex);
  const auto* region = at && !rondo::test::fake::isPinned(at) ? state.regionOf(at) : nullptr;
  return region && region->device >= 0 && region->device != device;
}

/// Runs each block on a multiprocessor, which it keeps until it ends.
void runKernel(FakeCuda::State& state, FakeCuda::State::Running kernel, std::uint32_t blocks,
               const std::function<void(std::uint32_t)>& run) {
  std::unique_lock lock(state.mutex);
  checkAccess(state, kernel);
  const int device = kernel.device;
  const auto running = state.running.insert(state.running.end(), std::move(kernel));
  int& free = state.devices[static_cast<std::size_t>(device)].free_slots;
  std::vector<std::thread> threads;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    state.changed.wait(lock, [&free] { return free > 0; });
    --free;
    threads.emplace_back([&state, &free, &run, b] {
      run(b);
      const std::lock_guard ended(state.mutex);
      ++free;
      state.changed.notify_all();
    });
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  lock.lock();
  state.running.erase(running);
  state.changed.notify_all();
}

std::function<void()> launchOf(FakeCuda::State& state, int device, const Kernel& kernel,
                               std::uint32_t blocks, void** arguments) {
  if (&kernel == &batch_kernel)
    return [&state, device, blocks, batch = *static_cast<const Batch*>(arguments[0])] {
      FakeCuda::State::Running running{device, {}};
      for (std::uint32_t j = 0; j < batch.first[batch.lanes]; ++j)
        addMemory(*batch.jobs[j].launch, running.memory);
      runKernel(state, running, blocks, [&batch](std::uint32_t block) {
        BlockMemory memory(1, rondo::device::kJobPlaces);
        rondo::test::runBatch(batch, block, memory, 0);
      });
    };
  if (&kernel == &switch_probe_kernel)
    return
        [&state, device, blocks, probe = *static_cast<const rondo::device::Probe*>(arguments[0])] {
          FakeCuda::State::Running running{device, {}};
          for (const void* at :
               {static_cast<const void*>(probe.to), static_cast<const void*>(probe.from)})
            if (at) running.memory.push_back(at);
          runKernel(state, running, blocks, [&](std::uint32_t) {
            if (!probe.to || !state.settings.lose_switch_stores) rondo::test::runSwitchProbe(probe);
          });
        };
  if (&kernel == &probe_kernel)
    return [&state, device, blocks,
            probe = *static_cast<const rondo::device::Probe*>(arguments[0])]() mutable {
      FakeCuda::State::Running running{device, {}};
      for (const void* at :
           {static_cast<const void*>(probe.to), static_cast<const void*>(probe.from)})
        if (at) running.memory.push_back(at);
      if (state.settings.lose_peer_stores && isElsewhere(state, device, probe.to))
        probe.to = nullptr;
      runKernel(state, running, blocks, [&probe](std::uint32_t) { rondo::test::runProbe(probe); });
    };
  return [&state, device, blocks, lane = kernel.lane,
          launch = *static_cast<const Launch*>(arguments[0])] {
    FakeCuda::State::Running running{device, {}};
    addMemory(launch, running.memory);
    runKernel(state, running, blocks, [&launch, lane](std::uint32_t block) {
      BlockMemory memory(1, launch.program.max_places);
      lane(launch, block, memory, 0);
    });
  };
}

/// The value of a launch's attribute, or null.
const cudaLaunchAttributeValue* attributeOf(const cudaLaunchConfig_t& config,
                                            cudaLaunchAttributeID id) {
  for (unsigned a = 0; a < config.numAttrs; ++a)
    if (config.attrs[a].id == id) return &config.attrs[a].val;
  return nullptr;
}
/// Whether the launch uses another memory domain than the program's kernels.
bool fencesApart(const cudaLaunchConfig_t& config) {
  const auto* domain = attributeOf(config, cudaLaunchAttributeMemSyncDomain);
  return domain && domain->memSyncDomain == cudaLaunchMemSyncDomainRemote;
}
/// Whether the launch may start before the kernel ahead of it has ended.
bool startsEarly(const cudaLaunchConfig_t& config) {
  const auto* early = attributeOf(config, cudaLaunchAttributeProgrammaticStreamSerialization);
  return early && early->programmaticStreamSerializationAllowed != 0;
}

} // namespace

namespace rondo::kernels::cuda {

const void* integer8Plan(DataType type, ReduceOp::Kind op) { return kernelOf(type, op); }
const void* integer16Plan(DataType type, ReduceOp::Kind op) { return kernelOf(type, op); }
const void* integer32Plan(DataType type, ReduceOp::Kind op) { return kernelOf(type, op); }
const void* integer64Plan(DataType type, ReduceOp::Kind op) { return kernelOf(type, op); }
const void* floatPlan(DataType type, ReduceOp::Kind op) { return kernelOf(type, op); }
const void* halfPlan(DataType type, ReduceOp::Kind op) { return kernelOf(type, op); }
const void* float8Plan(DataType type, ReduceOp::Kind op) { return kernelOf(type, op); }
const void* switchPlan(DataType type, ReduceOp::Kind op) { return kernelOf(type, op, true); }
const void* batchPlan() { return &batch_kernel; }
const void* probePlan() { return &probe_kernel; }
const void* switchProbePlan() { return &switch_probe_kernel; }

} // namespace rondo::kernels::cuda

extern "C" {

cudaError_t CUDARTAPI cudaFuncGetAttributes(cudaFuncAttributes* about, const void* kernel) {
  Entry entry(__func__);
  *about = {};
  about->ptxVersion = entry.state.settings.architecture;
  load(entry, kernel, entry.state.current());
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel,
                                                                    int, std::size_t) {
  Entry entry(__func__);
  load(entry, kernel, entry.state.current());
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                          void** arguments) {
  Entry entry(__func__);
  CUstream_st* stream = entry.state.streamOf(config->stream);
  if (!fencesApart(*config))
    entry.state.complain("the fences of a plan kernel wait for the program's kernels");
  const auto& settings = entry.state.settings;
  const bool may = static_cast<const Kernel*>(kernel)->waits && settings.architecture >= 90 &&
                   settings.driver >= 12030;
  if (startsEarly(*config) && !may)
    entry.state.complain(
        "a kernel starts early that does not wait for the kernel ahead of it, or that cannot be "
        "captured");
  if (!startsEarly(*config) && may)
    entry.state.complain("a kernel starts late that may start early");
  if (!stream) return entry.result(cudaErrorInvalidResourceHandle);
  load(entry, kernel, stream->device);
  return entry.result(
      entry.state.put(*stream,
                      launchOf(entry.state, stream->device, *static_cast<const Kernel*>(kernel),
                               config->gridDim.x, arguments),
                      true));
}

} // extern "C"
