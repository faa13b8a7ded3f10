// Memory of the fake: the runtime's pools, plain and pinned memory.
#include <cstring>
#include <new>

#include "device/cuda/fake/entry.h"
#include "device/cuda/fake/memory.h"

using rondo::test::FakeCuda;
using rondo::test::fake::Entry;
using rondo::test::fake::isPinned;
using rondo::test::fake::Region;

namespace {

constexpr std::align_val_t kAlign{512};
constexpr int kGarbage = 0xdd;
using Kind = Region::Kind;

/// The library keeps pinned memory from one fake to the next.
std::map<std::byte*, std::size_t>& pinned() {
  static auto* const all = new std::map<std::byte*, std::size_t>;
  return *all;
}

std::byte* allocate(FakeCuda::State& state, std::size_t bytes, Region region) {
  auto* memory = static_cast<std::byte*>(::operator new(bytes, kAlign));
  std::memset(memory, kGarbage, bytes); // a program must not rely on zeros
  region.bytes = bytes;
  state.regions[memory] = std::move(region);
  return memory;
}

/// Frees memory. Complains if a running kernel still uses it, and overwrites it, so that a later
/// read is noticed.
void release(FakeCuda::State& state, std::byte* memory) {
  const auto found = state.regions.find(memory);
  if (found == state.regions.end()) return state.complain("memory was freed that is not allocated");
  const std::size_t bytes = found->second.bytes;
  for (const auto& kernel : state.running)
    for (const void* used : kernel.memory)
      if (used >= memory && used < memory + bytes)
        state.complain("memory was freed that a running kernel uses");
  std::memset(memory, kGarbage, bytes);
  state.regions.erase(found);
  ::operator delete(memory, kAlign);
}

/// A kernel of the driver occupies a multiprocessor like any other.
void onMultiprocessor(FakeCuda::State& state, int device, const std::function<void()>& run) {
  std::unique_lock lock(state.mutex);
  int& free = state.devices[static_cast<std::size_t>(device)].free_slots;
  state.changed.wait(lock, [&free] { return free > 0; });
  --free;
  lock.unlock();
  run();
  lock.lock();
  ++free;
  state.changed.notify_all();
}

} // namespace

extern "C" {

cudaError_t CUDARTAPI cudaMalloc(void** memory, std::size_t bytes) {
  Entry entry(__func__);
  if (entry.state.unsafe(entry.name)) return entry.result(cudaErrorStreamCaptureUnsupported);
  const int device = entry.state.current();
  *memory = allocate(entry.state, bytes,
                     {Kind::plain, 0, device, std::make_shared<std::set<int>>(std::set{device})});
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaFree(void* memory) {
  Entry entry(__func__);
  if (!memory) return cudaSuccess;
  if (entry.state.unsafe(entry.name)) return entry.result(cudaErrorStreamCaptureUnsupported);
  entry.state.waitForKernels(entry.lock, entry.state.current(), entry.name);
  release(entry.state, static_cast<std::byte*>(memory));
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  Entry entry(__func__);
  entry.state.current();
  const int device = properties->location.id;
  *pool = new CUmemPoolHandle_st{device, std::make_shared<std::set<int>>(std::set{device})};
  entry.state.pools.insert(*pool);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMemPoolDestroy(cudaMemPool_t pool) {
  Entry entry(__func__);
  entry.state.current();
  if (entry.state.pools.erase(pool) == 0) return entry.result(cudaErrorInvalidValue);
  delete pool; // its allocations stay valid
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr, void*) {
  Entry entry(__func__);
  entry.state.current();
  return entry.result(entry.state.pools.contains(pool) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t CUDARTAPI cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access,
                                           std::size_t count) {
  Entry entry(__func__);
  entry.state.current();
  for (std::size_t i = 0; i < count; ++i) {
    const int device = access[i].location.id;
    if (device != pool->device && !entry.state.settings.peers)
      return entry.result(cudaErrorPeerAccessUnsupported);
    pool->access->insert(device);
  }
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t pool,
                                              cudaStream_t handle) {
  Entry entry(__func__);
  if (!entry.state.streamOf(handle)) return entry.result(cudaErrorInvalidResourceHandle);
  *memory = allocate(entry.state, bytes, {Kind::pool, 0, pool->device, pool->access});
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaFreeAsync(void* memory, cudaStream_t handle) {
  Entry entry(__func__);
  entry.state.current();
  // Any device may be current: the stream selects the device.
  if (!entry.state.streams.contains(handle)) return entry.result(cudaErrorInvalidResourceHandle);
  return entry.result(entry.state.put(
      *handle, [&state = entry.state, memory] { release(state, static_cast<std::byte*>(memory)); },
      false));
}
cudaError_t CUDARTAPI cudaMemsetAsync(void* memory, int value, std::size_t bytes,
                                      cudaStream_t handle) {
  Entry entry(__func__);
  CUstream_st* stream = entry.state.streamOf(handle);
  if (!stream) return entry.result(cudaErrorInvalidResourceHandle);
  return entry.result(entry.state.put(
      *stream,
      [&state = entry.state, device = stream->device, memory, value, bytes] {
        onMultiprocessor(state, device, [&] { std::memset(memory, value, bytes); });
      },
      true));
}
cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                      cudaStream_t handle) {
  Entry entry(__func__);
  CUstream_st* stream = entry.state.streamOf(handle);
  if (!stream) return entry.result(cudaErrorInvalidResourceHandle);
  entry.state.copied += bytes;
  // The driver may block the host until the copy has run, whatever the stream waits for.
  if (!entry.state.regionOf(from) && !isPinned(from))
    ++entry.state.calls["cudaMemcpyAsync of pageable memory"];
  return entry.result(entry.state.put(
      *stream, [to, from, bytes] { std::memcpy(to, from, bytes); }, false));
}

cudaError_t CUDARTAPI cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  Entry entry(__func__);
  if (entry.state.unsafe(entry.name)) return entry.result(cudaErrorStreamCaptureUnsupported);
  entry.state.waitForKernels(entry.lock, entry.state.current(), entry.name);
  auto* made = static_cast<std::byte*>(::operator new(bytes, kAlign));
  std::memset(made, kGarbage, bytes);
  pinned()[made] = bytes;
  *memory = made;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaFreeHost(void* memory) {
  Entry entry(__func__);
  if (entry.state.unsafe(entry.name)) return entry.result(cudaErrorStreamCaptureUnsupported);
  entry.state.waitForKernels(entry.lock, entry.state.current(), entry.name);
  if (memory && pinned().erase(static_cast<std::byte*>(memory)) == 0)
    return entry.result(cudaErrorInvalidValue);
  ::operator delete(memory, kAlign);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaHostRegister(void* memory, std::size_t bytes, unsigned) {
  Entry entry(__func__);
  if (entry.state.unsafe(entry.name)) return entry.result(cudaErrorStreamCaptureUnsupported);
  const int device = entry.state.current();
  entry.state.waitForKernels(entry.lock, device, entry.name);
  if (entry.state.regionOf(memory)) return entry.result(cudaErrorHostMemoryAlreadyRegistered);
  entry.state.regions[static_cast<std::byte*>(memory)] = {Kind::registered, bytes, device, nullptr};
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaHostUnregister(void* memory) {
  Entry entry(__func__);
  entry.state.current();
  if (entry.state.unsafe(entry.name)) return entry.result(cudaErrorStreamCaptureUnsupported);
  const auto found = entry.state.regions.find(static_cast<std::byte*>(memory));
  if (found == entry.state.regions.end() || found->second.kind != Kind::registered)
    return entry.result(cudaErrorHostMemoryNotRegistered);
  entry.state.waitForKernels(entry.lock, found->second.device, entry.name);
  entry.state.regions.erase(found);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaHostGetDevicePointer(void** address, void* memory, unsigned) {
  Entry entry(__func__);
  entry.state.current();
  *address = memory;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaPointerGetAttributes(cudaPointerAttributes* about, const void* memory) {
  Entry entry(__func__);
  *about = {};
  about->device = entry.state.current();
  const auto* at = static_cast<const std::byte*>(memory);
  for (const auto& [begin, bytes] : pinned())
    if (at >= begin && at < begin + bytes) about->type = cudaMemoryTypeHost;
  if (const Region* region = entry.state.regionOf(memory)) {
    about->type = region->kind == Kind::registered ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    about->device = region->device;
  }
  if (about->type != cudaMemoryTypeUnregistered) about->devicePointer = const_cast<void*>(memory);
  return cudaSuccess;
}

} // extern "C"

namespace rondo::test::fake {

void freeLeft(FakeCuda::State& state) {
  for (const auto& [at, region] : state.regions)
    if (region.kind == Kind::pool || region.kind == Kind::plain)
      ::operator delete(const_cast<std::byte*>(at), kAlign);
}

bool isPinned(const void* memory) {
  const auto* at = static_cast<const std::byte*>(memory);
  for (const auto& [begin, bytes] : pinned())
    if (at >= begin && at < begin + bytes) return true;
  return false;
}

} // namespace rondo::test::fake
