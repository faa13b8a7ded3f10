// Devices, contexts and errors of the fake.
#include <cstdio>
#include <cstring>
#include <string>

#include "device/cuda/fake/entry.h"

using rondo::test::fake::Entry;
using rondo::test::fake::self;

namespace {
bool exists(const Entry& entry, int device) {
  return device >= 0 && device < entry.state.settings.devices;
}
} // namespace

extern "C" {

const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  static thread_local std::string text;
  text = "error " + std::to_string(static_cast<int>(error)) + " of the fake";
  return text.c_str();
}
cudaError_t CUDARTAPI cudaGetLastError() {
  const cudaError_t last = self().last;
  self().last = cudaSuccess;
  return last;
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  Entry entry(__func__);
  *count = entry.state.settings.devices;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  Entry entry(__func__);
  *version = entry.state.settings.driver;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGetDevice(int* device) {
  Entry entry(__func__); // creates no context
  const auto& thread = self();
  *device = thread.contexts.empty() ? thread.device : thread.contexts.back()->device;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaSetDevice(int device) {
  Entry entry(__func__);
  if (!exists(entry, device)) return entry.result(cudaErrorInvalidDevice);
  entry.state.contexts.insert(device); // as the runtime does since version 12
  auto& thread = self();
  thread.device = device;
  if (!thread.contexts.empty())
    thread.contexts.back() = &entry.state.devices[static_cast<std::size_t>(device)].primary;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  Entry entry(__func__);
  if (!exists(entry, device)) return entry.result(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "fake GPU %d", device);
  std::memset(properties->uuid.bytes, device + 1, sizeof properties->uuid.bytes);
  properties->multiProcessorCount = entry.state.settings.multiprocessors;
  properties->unifiedAddressing = properties->canMapHostMemory = 1;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  Entry entry(__func__);
  if (!exists(entry, device)) return entry.result(cudaErrorInvalidDevice);
  *value = attribute == cudaDevAttrMultiProcessorCount ? entry.state.settings.multiprocessors : 1;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char* id, int length, int device) {
  Entry entry(__func__);
  if (!exists(entry, device)) return entry.result(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02d:00.0", device);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int* possible, int device, int peer) {
  Entry entry(__func__);
  if (!exists(entry, device) || !exists(entry, peer)) return entry.result(cudaErrorInvalidDevice);
  *possible = entry.state.settings.peers && device != peer;
  return cudaSuccess;
}

CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  Entry entry(__func__);
  *value = attribute != CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED || entry.state.settings.multicasts;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  Entry entry(__func__);
  if (!exists(entry, device)) return CUDA_ERROR_INVALID_VALUE;
  entry.state.contexts.insert(device);
  *context = &entry.state.devices[static_cast<std::size_t>(device)].primary;
  ++(*context)->retained;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  Entry entry(__func__);
  if (!exists(entry, device)) return CUDA_ERROR_INVALID_VALUE;
  auto& primary = entry.state.devices[static_cast<std::size_t>(device)].primary;
  if (primary.retained-- == 0) entry.state.complain("a context was released that was not retained");
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
  Entry entry(__func__);
  if (!context || context->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  self().contexts.push_back(context);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxPopCurrent(CUcontext* context) {
  Entry entry(__func__);
  auto& stack = self().contexts;
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context) *context = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamGetGreenCtx(CUstream stream, CUgreenCtx* context) {
  Entry entry(__func__);
  const bool known = entry.state.streams.contains(stream);
  if (known && entry.state.hidden(*stream, entry.name))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *context = known ? stream->green.get() : nullptr;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGreenCtxGetDevResource(CUgreenCtx context, CUdevResource* resource,
                                          CUdevResourceType type) {
  Entry entry(__func__);
  *resource = {};
  resource->type = type;
  resource->sm.smCount = context->multiprocessors;
  return CUDA_SUCCESS;
}

} // extern "C"
