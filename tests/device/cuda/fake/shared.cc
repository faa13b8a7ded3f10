// The fake's virtual memory functions of the driver, on memory files, and the look-up of driver
// functions by name.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "device/cuda/fake/entry.h"

using rondo::test::HostSwitch;
using rondo::test::fake::Entry;
using rondo::test::fake::Region;

namespace {

constexpr std::size_t kUnit = 64 << 10;
constexpr std::size_t kSwitchUnit = 256 << 10;

void* at(CUdeviceptr address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

template <class Function>
void* pointer(Function* function) {
  return reinterpret_cast<void*>(function);
}

/// A memory file of this many bytes; -1 on failure.
int fileOf(std::size_t bytes) {
  const int file = ::memfd_create("fake", MFD_CLOEXEC);
  return file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes)) == 0 ? file : -1;
}

unsigned long numberOf(int file) {
  struct stat about {};
  ::fstat(file, &about);
  return about.st_ino;
}

} // namespace

rondo::test::FakeCuda::State::Multicast* rondo::test::FakeCuda::State::multicastOf(
    unsigned long long handle) {
  const auto file = allocations.find(handle);
  if (file == allocations.end()) return nullptr;
  const auto found = multicasts.find(numberOf(file->second));
  return found == multicasts.end() ? nullptr : &found->second;
}

bool rondo::test::FakeCuda::State::isWindow(const std::byte* at) const {
  return std::any_of(multicasts.begin(), multicasts.end(), [at](const auto& object) {
    const auto& windows = *object.second.windows;
    return std::find(windows.begin(), windows.end(), at) != windows.end();
  });
}

extern "C" {

CUresult CUDAAPI cuMemGetAllocationGranularity(std::size_t* unit, const CUmemAllocationProp*,
                                               CUmemAllocationGranularity_flags) {
  Entry entry(__func__);
  *unit = kUnit;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                             const CUmemAllocationProp*, unsigned long long) {
  Entry entry(__func__);
  if (bytes == 0 || bytes % kUnit != 0) return CUDA_ERROR_INVALID_VALUE;
  const int file = fileOf(bytes);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  *handle = entry.state.next_allocation++;
  entry.state.allocations[*handle] = file;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  Entry entry(__func__);
  const auto found = entry.state.allocations.find(handle);
  if (found == entry.state.allocations.end()) return CUDA_ERROR_INVALID_HANDLE;
  ::close(found->second);
  entry.state.allocations.erase(found);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType, unsigned long long) {
  Entry entry(__func__);
  const auto found = entry.state.allocations.find(handle);
  if (found == entry.state.allocations.end()) return CUDA_ERROR_INVALID_HANDLE;
  *static_cast<int*>(shareable) = ::dup(found->second);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                void* shareable, CUmemAllocationHandleType) {
  Entry entry(__func__);
  const int file = ::dup(static_cast<int>(reinterpret_cast<std::intptr_t>(shareable)));
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  *handle = entry.state.next_allocation++;
  entry.state.allocations[*handle] = file;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t,
                                     CUdeviceptr, unsigned long long) {
  Entry entry(__func__);
  void* const reserved =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return CUDA_ERROR_INVALID_VALUE;
  *address = reinterpret_cast<std::uintptr_t>(reserved);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  Entry entry(__func__);
  if (entry.state.regionOf(at(address)))
    entry.state.complain("addresses were freed while memory was mapped there");
  if (!entry.state.isWindow(static_cast<std::byte*>(at(address)))) ::munmap(at(address), bytes);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t,
                          CUmemGenericAllocationHandle handle, unsigned long long) {
  Entry entry(__func__);
  const auto found = entry.state.allocations.find(handle);
  if (found == entry.state.allocations.end()) return CUDA_ERROR_INVALID_HANDLE;
  auto* const begin = static_cast<std::byte*>(at(address));
  if (auto* object = entry.state.multicastOf(handle)) {
    if (object->added.size() < object->devices)
      entry.state.complain("a multicast object was mapped before all devices were added");
    entry.state.switches[begin] = std::make_unique<HostSwitch>(object->windows, bytes, begin);
  } else if (::mmap(begin, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second, 0) ==
             MAP_FAILED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (auto& [number, object] : entry.state.multicasts)
    for (std::size_t i = 0; i < object.bound.size(); ++i)
      if (object.bound[i] == numberOf(found->second)) (*object.windows)[i] = begin;
  entry.state.regions[begin] = {Region::Kind::mapped, bytes, 0, std::make_shared<std::set<int>>()};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  Entry entry(__func__);
  // The driver unmaps the memory at once: a kernel that uses it fails.
  for (const auto& kernel : entry.state.running)
    for (const void* used : kernel.memory)
      if (used >= at(address) && used < static_cast<std::byte*>(at(address)) + bytes)
        entry.state.complain("memory was unmapped that a running kernel uses");
  if (entry.state.regions.erase(static_cast<std::byte*>(at(address))) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto* const begin = static_cast<std::byte*>(at(address));
  entry.state.switches.erase(begin);
  if (!entry.state.isWindow(begin)) // other ranks may be inside a step
    ::mmap(begin, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, std::size_t bytes,
                                const CUmemAccessDesc* access, std::size_t count) {
  Entry entry(__func__);
  const Region* region = entry.state.regionOf(at(address));
  if (!region) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) region->access->insert(access[i].location.id);
  if (entry.state.switches.contains(static_cast<std::byte*>(at(address)))) return CUDA_SUCCESS;
  return ::mprotect(at(address), bytes, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMulticastGetGranularity(std::size_t* unit, const CUmulticastObjectProp*,
                                           CUmulticastGranularity_flags) {
  Entry entry(__func__);
  *unit = kSwitchUnit;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMulticastCreate(CUmemGenericAllocationHandle* object,
                                   const CUmulticastObjectProp* properties) {
  Entry entry(__func__);
  const std::size_t bytes = properties->size;
  if (bytes == 0 || bytes % kSwitchUnit != 0 || properties->numDevices == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const int file = fileOf(bytes);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  *object = entry.state.next_allocation++;
  entry.state.allocations[*object] = file;
  entry.state.multicasts[numberOf(file)] = {properties->numDevices, bytes, {}, {}};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  Entry entry(__func__);
  auto* object = entry.state.multicastOf(handle);
  if (!object) return CUDA_ERROR_INVALID_HANDLE;
  if (object->added.size() == object->devices || !object->added.insert(device).second)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMulticastBindMem(CUmemGenericAllocationHandle handle, std::size_t offset,
                                    CUmemGenericAllocationHandle memory, std::size_t memory_offset,
                                    std::size_t bytes, unsigned long long) {
  Entry entry(__func__);
  auto* object = entry.state.multicastOf(handle);
  const auto found = entry.state.allocations.find(memory);
  if (!object || found == entry.state.allocations.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (object->added.size() < object->devices)
    entry.state.complain("memory was bound to a multicast object before all devices were added");
  if (offset != 0 || memory_offset != 0 || bytes != object->bytes ||
      object->bound.size() == object->devices)
    return CUDA_ERROR_INVALID_VALUE;
  object->bound.push_back(numberOf(found->second));
  object->windows->push_back(nullptr); // until it is mapped
  return CUDA_SUCCESS;
}

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                                       unsigned, unsigned long long,
                                                       cudaDriverEntryPointQueryResult* result) {
  static const std::map<std::string, void*> all = {
      {"cuDeviceGetAttribute", pointer(cuDeviceGetAttribute)},
      {"cuDevicePrimaryCtxRetain", pointer(cuDevicePrimaryCtxRetain)},
      {"cuDevicePrimaryCtxRelease", pointer(cuDevicePrimaryCtxRelease)},
      {"cuCtxPushCurrent", pointer(cuCtxPushCurrent)},
      {"cuCtxPopCurrent", pointer(cuCtxPopCurrent)},
      {"cuStreamGetGreenCtx", pointer(cuStreamGetGreenCtx)},
      {"cuGreenCtxGetDevResource", pointer(cuGreenCtxGetDevResource)},
      {"cuMemGetAllocationGranularity", pointer(cuMemGetAllocationGranularity)},
      {"cuMemCreate", pointer(cuMemCreate)},
      {"cuMemRelease", pointer(cuMemRelease)},
      {"cuMemExportToShareableHandle", pointer(cuMemExportToShareableHandle)},
      {"cuMemImportFromShareableHandle", pointer(cuMemImportFromShareableHandle)},
      {"cuMemAddressReserve", pointer(cuMemAddressReserve)},
      {"cuMemAddressFree", pointer(cuMemAddressFree)},
      {"cuMemMap", pointer(cuMemMap)},
      {"cuMemUnmap", pointer(cuMemUnmap)},
      {"cuMemSetAccess", pointer(cuMemSetAccess)},
      {"cuMulticastGetGranularity", pointer(cuMulticastGetGranularity)},
      {"cuMulticastCreate", pointer(cuMulticastCreate)},
      {"cuMulticastAddDevice", pointer(cuMulticastAddDevice)},
      {"cuMulticastBindMem", pointer(cuMulticastBindMem)}};
  const auto found = all.find(symbol);
  *function = found == all.end() ? nullptr : found->second;
  if (result)
    *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

} // extern "C"
