// Queues, contexts and common functions of the fake.
#include "device/cuda/fake/fake.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "device/cuda/fake/memory.h"
#include "device/cuda/fake/state.h"

namespace rondo::test {

namespace fake {
ThreadState& self() {
  static thread_local ThreadState state;
  return state;
}
} // namespace fake

namespace {
FakeCuda::State* the_one = nullptr;
} // namespace

FakeCuda::State& FakeCuda::State::get() {
  if (the_one) return *the_one;
  std::fputs("a function of CUDA was called without a FakeCuda\n", stderr);
  std::abort();
}

FakeCuda::State::State(const Settings& of) : settings(of), devices(std::size_t(of.devices)) {
  for (int d = 0; d < of.devices; ++d) {
    Device& device = devices[static_cast<std::size_t>(d)];
    device.primary.device = device.legacy.device = d;
    device.free_slots = of.multiprocessors;
    device.queues.resize(static_cast<std::size_t>(of.queues));
  }
  the_one = this;
}

FakeCuda::State::~State() {
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return unfinished == 0; });
  }
  for (std::thread& one : apart_) one.join();
  fake::freeLeft(*this);
  the_one = nullptr;
}

/// A queue starts its items in order, each when all items that it waits for are done. So a waiting
/// item also blocks later items of other streams in the same queue.
void FakeCuda::State::advance() {
  const auto ready = [](const fake::ItemPtr& item) {
    return std::all_of(item->after.begin(), item->after.end(),
                       [](const auto& before) { return before->done; });
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (Device& device : devices)
      for (auto& queue : device.queues)
        for (; !queue.empty() && ready(queue.front()); moved = true) {
          const fake::ItemPtr item = queue.front();
          queue.pop_front();
          start(item);
        }
  }
  changed.notify_all();
}

void FakeCuda::State::start(const fake::ItemPtr& item) {
  item->after.clear();
  if (!item->apart) {
    item->run();
    return finish(*item);
  }
  apart_.emplace_back([this, item] {
    item->run();
    const std::lock_guard lock(mutex);
    finish(*item);
    advance();
  });
}

void FakeCuda::State::finish(fake::Item& item) {
  item.run = nullptr;
  item.done = true;
  --unfinished;
}

int FakeCuda::State::current() {
  const fake::ThreadState& thread = fake::self();
  if (!thread.contexts.empty()) return thread.contexts.back()->device;
  contexts.insert(thread.device);
  return thread.device;
}

CUstream_st* FakeCuda::State::streamOf(cudaStream_t handle) {
  const int device = current();
  if (handle == nullptr || handle == cudaStreamLegacy)
    return &devices[static_cast<std::size_t>(device)].legacy;
  if (!streams.contains(handle)) {
    complain("a stream was used that does not exist");
    return nullptr;
  }
  if (handle->device != device) {
    complain("a stream of device " + std::to_string(handle->device) + " was used while device " +
             std::to_string(device) + " is current");
    return nullptr;
  }
  return handle;
}

bool FakeCuda::State::unsafe(const char* name) {
  const fake::ThreadState& thread = fake::self();
  bool refused = false;
  if (thread.mode == cudaStreamCaptureModeRelaxed) return false;
  for (const auto& weak : captures) {
    const auto capture = weak.lock();
    if (!capture || capture->mode == cudaStreamCaptureModeRelaxed) continue;
    const bool own = capture->begun_by == std::this_thread::get_id();
    const bool global =
        capture->mode == cudaStreamCaptureModeGlobal && thread.mode == cudaStreamCaptureModeGlobal;
    if (!own && !global) continue;
    capture->invalid = refused = true;
  }
  if (refused) complain(std::string(name) + " while a stream is being captured");
  return refused;
}

bool FakeCuda::State::hidden(const CUstream_st& stream, const char* name) {
  if (!stream.capture) return false;
  stream.capture->invalid = true;
  complain(std::string(name) + " of a stream that is being captured");
  return true;
}

void FakeCuda::State::waitForKernels(std::unique_lock<std::mutex>& lock, int device,
                                     const char* name) {
  if (!settings.pessimistic) return;
  const auto idle = [&] {
    return std::none_of(running.begin(), running.end(),
                        [device](const Running& one) { return one.device == device; });
  };
  if (!changed.wait_for(lock, settings.patience, idle))
    complain(std::string(name) + " waits for kernels that do not end");
}

cudaError_t FakeCuda::State::put(CUstream_st& stream, std::function<void()> run, bool apart,
                                 fake::ItemPtr before) {
  if (stream.capture) {
    if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
    stream.capture->nodes.push_back({stream.tail, std::move(run)});
    stream.tail = {stream.capture->nodes.size() - 1};
    return cudaSuccess;
  }
  Device& device = devices[static_cast<std::size_t>(stream.device)];
  auto item = std::make_shared<fake::Item>();
  item->run = std::move(run);
  item->apart = apart;
  if (before) item->after.push_back(std::move(before));
  if (stream.last) item->after.push_back(stream.last);
  // The legacy stream and blocking streams wait for each other.
  if (&stream == &device.legacy) {
    for (const CUstream_st* other : streams)
      if (other->device == stream.device && !(other->flags & cudaStreamNonBlocking) && other->last)
        item->after.push_back(other->last);
  } else if (!(stream.flags & cudaStreamNonBlocking) && device.legacy.last) {
    item->after.push_back(device.legacy.last);
  }
  stream.last = item;
  ++unfinished;
  device.queues[stream.queue].push_back(std::move(item));
  advance();
  return cudaSuccess;
}

const fake::Region* FakeCuda::State::regionOf(const void* at) {
  const auto* address = static_cast<const std::byte*>(at);
  const auto after = regions.upper_bound(address);
  if (after == regions.begin()) return nullptr;
  const auto& [begin, region] = *std::prev(after);
  return address < begin + region.bytes ? &region : nullptr;
}

// For tests ---------------------------------------------------------------------------------------

FakeCuda::FakeCuda(const Settings& settings) : state_(std::make_unique<State>(settings)) {}
FakeCuda::~FakeCuda() = default;

std::set<int> FakeCuda::contexts() const {
  const std::lock_guard lock(state_->mutex);
  return state_->contexts;
}
std::vector<std::string> FakeCuda::complaints() const {
  const std::lock_guard lock(state_->mutex);
  return state_->complaints;
}
std::map<std::string, int> FakeCuda::held() const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->unfinished == 0; });
  std::map<std::string, int> held;
  const auto count = [&held](const std::string& kind, std::size_t number) {
    if (number > 0) held[kind] += static_cast<int>(number);
  };
  count("streams", state_->streams.size());
  count("events", state_->events.size());
  count("pools", state_->pools.size());
  count("shared allocations", state_->allocations.size());
  for (const auto& [at, region] : state_->regions)
    if (region.kind == fake::Region::Kind::pool) count("memory of pools", 1);
    else if (region.kind == fake::Region::Kind::plain) count("memory", 1);
    else if (region.kind == fake::Region::Kind::registered) count("registered memory", 1);
    else if (region.kind == fake::Region::Kind::mapped) count("mappings", 1);
  for (const State::Device& device : state_->devices)
    count("contexts", static_cast<std::size_t>(device.primary.retained));
  return held;
}
int FakeCuda::calls(const std::string& function) const {
  const auto all = calls();
  const auto found = all.find(function);
  return found == all.end() ? 0 : found->second;
}
std::map<std::string, int> FakeCuda::calls() const {
  const std::lock_guard lock(state_->mutex);
  return state_->calls;
}
void FakeCuda::clearCalls() {
  const std::lock_guard lock(state_->mutex);
  state_->calls.clear();
  state_->copied = 0;
}
std::size_t FakeCuda::copied() const {
  const std::lock_guard lock(state_->mutex);
  return state_->copied;
}
void* FakeCuda::makeGreenStream(unsigned multiprocessors) {
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return nullptr;
  const std::lock_guard lock(state_->mutex);
  stream->green = std::make_unique<CUgreenCtx_st>(CUgreenCtx_st{multiprocessors});
  return stream;
}

} // namespace rondo::test
