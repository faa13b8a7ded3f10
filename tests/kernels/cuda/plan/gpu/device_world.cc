// Lays out programs and rings in the GPU's memory, and launches.
#include "kernels/cuda/plan/gpu/device_world.h"

#include <cuda_runtime_api.h>

#include <atomic>

#include "device/residency.h"
#include "engine/device_program.h"
#include "rondo/error.h"
#include "support/nowhere.h"

namespace rondo::test {

namespace {

/// Channels of the same two ranks that a plan has at most.
constexpr int kPerCopy = 16;

void must(cudaError_t status) {
  if (status != cudaSuccess) throw Error(ErrorCode::system, cudaGetErrorString(status));
}

} // namespace

GpuMemory::GpuMemory(std::size_t bytes, Where where) : where_(where) {
  if (bytes == 0) bytes = 1;
  if (where == Where::device) {
    must(cudaMalloc(&data_, bytes));
    must(cudaMemset(data_, 0, bytes));
    must(cudaDeviceSynchronize());
  } else {
    must(cudaHostAlloc(&data_, bytes, cudaHostAllocMapped));
    std::fill_n(data(), bytes, std::byte{});
  }
}
GpuMemory::~GpuMemory() {
  if (where_ == Where::device) cudaFree(data_);
  else cudaFreeHost(data_);
}

struct DeviceWorld::Rank {
  std::unique_ptr<engine::Fabric> fabric;
  GpuMemory halt{sizeof(device::Halt)};
  GpuMemory panel{sizeof(device::Panel), GpuMemory::Where::host};
  cudaStream_t stream = nullptr;

  Rank() { must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~Rank() { cudaStreamDestroy(stream); }
};

struct DeviceWorld::Launchable {
  engine::BoundPlan bound;
  device::Launch launch;
  std::unique_ptr<kernels::cuda::PlanFunction> function;
  std::unique_ptr<CollectiveBuffers> buffers;
  std::vector<std::unique_ptr<GpuMemory>> memory; ///< as the buffers' memory()
  std::unique_ptr<GpuMemory> image, rings, clocks, scratch;
  cudaGraphExec_t graph = nullptr;

  ~Launchable() {
    if (graph) cudaGraphExecDestroy(graph);
  }
  /// Where something of the host's buffers stands on the device.
  std::byte* onDevice(const void* host) const {
    const auto* at = static_cast<const std::byte*>(host);
    const auto blocks = buffers->memory();
    for (std::size_t b = 0; b < blocks.size(); ++b)
      if (at && at >= blocks[b].data() && at < blocks[b].data() + blocks[b].size())
        return memory[b]->data() + (at - blocks[b].data());
    return nullptr;
  }
  void copy(cudaMemcpyKind kind) const {
    const auto blocks = buffers->memory();
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const bool up = kind == cudaMemcpyHostToDevice;
      void* host = blocks[b].data();
      void* device = memory[b]->data();
      must(cudaMemcpy(up ? device : host, up ? host : device, blocks[b].size(), kind));
    }
  }
};

DeviceWorld::DeviceWorld(int ranks, device::RingSize size, std::uint32_t copies)
    : size_(size), copies_(copies) {
  for (int r = 0; r < ranks; ++r) {
    std::vector<std::unique_ptr<transport::Transport>> transports;
    transports.push_back(std::make_unique<Nowhere>());
    std::vector<engine::Fabric::Peer> peers(static_cast<std::size_t>(ranks));
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != r) peers[static_cast<std::size_t>(peer)].transport = transports[0].get();
    ranks_.push_back(std::make_unique<Rank>());
    ranks_.back()->fabric = std::make_unique<engine::Fabric>(
        r, 1, std::move(transports), std::move(peers), size.slot_bytes, true);
  }
}
DeviceWorld::~DeviceWorld() { cudaDeviceSynchronize(); }

const device::Panel& DeviceWorld::panel(int rank) const {
  return *ranks_[static_cast<std::size_t>(rank)]->panel.as<device::Panel>();
}
void DeviceWorld::abort(int rank) {
  auto& word = ranks_[static_cast<std::size_t>(rank)]->panel.as<device::Panel>()->abort;
  std::atomic_ref<std::uint32_t>(word).store(1);
}

device::Ring DeviceWorld::ringOf(const plan::Channel& channel, bool sending) {
  auto& entry = channels_[channel];
  if (!entry)
    entry.reset(
        new Channel{GpuMemory(size_.inboxBytes()), GpuMemory(device::RingSize::creditBytes()),
                    GpuMemory(sizeof(device::Position)), GpuMemory(sizeof(device::Position))});
  return size_.ring(entry->inbox.data(), entry->credit.data(),
                    (sending ? entry->sender : entry->receiver).as<device::Position>());
}

std::unique_ptr<DeviceWorld::Launchable> DeviceWorld::prepare(const plan::Algorithm& algorithm,
                                                              const CollectiveCase& one, int r) {
  const int ranks = static_cast<int>(ranks_.size());
  Rank& rank = *ranks_[static_cast<std::size_t>(r)];
  auto made = std::make_unique<Launchable>();
  const plan::RankPlan plan = algorithm.build({one.collective, ranks, one.root, 0}, r);
  const bool reducing = reduces(one.collective);
  const auto op = reducing ? one.op.kind() : ReduceOp::Kind::sum;
  made->bound = engine::bind(plan, {one.count, one.type, op}, *rank.fabric);
  const device::ProgramTables tables = engine::flatten(
      made->bound, engine::deviceSteps(plan, nullptr, nullptr, true), size_.protocol, copies_);
  made->function = std::make_unique<kernels::cuda::PlanFunction>(tables.header);
  device::copiesWithin({made->function->residentBlocks(), ranks}, tables.header.blocks(), 1);

  std::vector<std::byte> image(tables.bytes());
  tables.write(image.data());
  made->image = std::make_unique<GpuMemory>(image.size());
  must(cudaMemcpy(made->image->data(), image.data(), image.size(), cudaMemcpyHostToDevice));
  std::vector<device::Ring> rings;
  for (int copy = 0; copy < static_cast<int>(copies_); ++copy)
    for (const plan::Channel& channel : plan.channels)
      rings.push_back(
          ringOf({channel.src, channel.dst, channel.index + kPerCopy * copy}, channel.src == r));
  made->rings = std::make_unique<GpuMemory>(rings.size() * sizeof(device::Ring));
  if (!rings.empty())
    must(cudaMemcpy(made->rings->data(), rings.data(), rings.size() * sizeof(device::Ring),
                    cudaMemcpyHostToDevice));
  made->clocks = std::make_unique<GpuMemory>(tables.header.blocks() * sizeof(device::LaneClock));
  made->scratch = std::make_unique<GpuMemory>(made->bound.scratch_bytes * copies_);

  made->buffers = std::make_unique<CollectiveBuffers>(one, r, ranks);
  for (const auto& block : made->buffers->memory())
    made->memory.push_back(std::make_unique<GpuMemory>(block.size()));
  const bool average = reducing && op == ReduceOp::Kind::avg;
  made->launch = {.program = tables.at(made->image->data()),
                  .rings = made->rings->as<device::Ring>(),
                  .clocks = made->clocks->as<device::LaneClock>(),
                  .window = {},
                  .input = made->onDevice(made->buffers->input()),
                  .output = made->onDevice(made->buffers->output()),
                  .scratch = made->scratch->data(),
                  .factor = average && isFloat(one.type) ? 1.0 / ranks
                            : reducing                   ? one.op.factor()
                                                         : 1.0,
                  .divisor = average && !isFloat(one.type) ? ranks : 1,
                  .timeout_ns = static_cast<std::uint64_t>(timeout.count()),
                  .halt = rank.halt.as<device::Halt>(),
                  .panel = rank.panel.as<device::Panel>()};
  return made;
}

std::string DeviceWorld::run(const plan::Algorithm& algorithm, const CollectiveCase& one,
                             int launches, bool replayed) {
  std::vector<std::unique_ptr<Launchable>> calls;
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r)
    calls.push_back(prepare(algorithm, one, r));
  for (std::size_t r = 0; replayed && r < calls.size(); ++r) {
    cudaStream_t stream = ranks_[r]->stream;
    cudaGraph_t graph = nullptr;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    calls[r]->function->launch(calls[r]->launch, stream);
    must(cudaStreamEndCapture(stream, &graph));
    must(cudaGraphInstantiate(&calls[r]->graph, graph, 0));
    must(cudaGraphDestroy(graph));
  }
  for (int n = 0; n < launches; ++n) {
    for (const auto& call : calls) {
      call->buffers->fill();
      call->copy(cudaMemcpyHostToDevice);
    }
    for (std::size_t r = 0; r < calls.size(); ++r) {
      if (alone >= 0 && static_cast<int>(r) != alone) continue;
      if (replayed) must(cudaGraphLaunch(calls[r]->graph, ranks_[r]->stream));
      else calls[r]->function->launch(calls[r]->launch, ranks_[r]->stream);
    }
    must(cudaDeviceSynchronize());
    for (std::size_t r = 0; r < calls.size(); ++r) {
      const std::string who = "rank " + std::to_string(r) + ": ";
      if (panel(static_cast<int>(r)).ended != 0)
        return who + engine::position(calls[r]->bound, panel(static_cast<int>(r)).report).text;
      if (alone >= 0) continue;
      calls[r]->copy(cudaMemcpyDeviceToHost);
      if (std::string wrong = calls[r]->buffers->wrong(); !wrong.empty()) return who + wrong;
    }
  }
  return {};
}

} // namespace rondo::test
