// Queries about the library and about communicators, and allocation and registration of memory.
#include <map>
#include <mutex>
#include <string>

#include "compat/nccl/cuda_driver.h"
#include "compat/nccl/group.h"

namespace rondo::compat::nccl {

namespace {

/// Memory that ncclMemAlloc() returned.
struct Allocated {
  std::mutex mutex;
  std::map<void*, Buffer> host;
};
Allocated& allocated() {
  static auto& one = *new Allocated; // never destroyed: programs may free while the process exits
  return one;
}

/// Whether ncclMemAlloc() returns GPU memory: if a communicator created by this thread would be on
/// a GPU.
bool onDevice() { return optionsOfThread().device >= 0; }

} // namespace

NCCL_EXPORT(ncclResult_t, GetVersion, (int* version)) {
  return answer("ncclGetVersion", [&] {
    needAddress(version, "the address of the version");
    *version = RONDO_NCCL_VERSION;
    return ncclSuccess;
  });
}

NCCL_EXPORT(const char*, GetErrorString, (ncclResult_t result)) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "operation in progress";
    case ncclNumResults: break;
  }
  return "unknown result code";
}

NCCL_EXPORT(const char*, GetLastError, (ncclComm_t comm)) {
  if (!comm) return lastError();
  try {
    const Refusal state = ncclComm::known(comm).state();
    if (state.result != ncclSuccess && state.result != ncclInProgress)
      return answerText(state.text);
  } catch (const Refusal&) {
    // The handle is not valid. The last error is more useful than that.
  }
  return lastError();
}

NCCL_EXPORT(void, ResetDebugInit, (void)) {
  // Nothing to reset: each new communicator reads the environment.
}

NCCL_EXPORT(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError)) {
  return answer("ncclCommGetAsyncError", [&] {
    ncclComm& handle = ncclComm::known(comm);
    needAddress(asyncError, "the address of the error");
    *asyncError = handle.state().result;
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, CommCount, (const ncclComm_t comm, int* count)) {
  return answer("ncclCommCount", [&] {
    const auto member = ncclComm::known(comm).member();
    needAddress(count, "the address of the count");
    *count = member->comm.size();
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int* device)) {
  return answer("ncclCommCuDevice", [&] {
    const auto member = ncclComm::known(comm).member();
    needAddress(device, "the address of the device");
    *device = member->device;
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, CommUserRank, (const ncclComm_t comm, int* rank)) {
  return answer("ncclCommUserRank", [&] {
    const auto member = ncclComm::known(comm).member();
    needAddress(rank, "the address of the rank");
    *rank = member->comm.rank();
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, MemAlloc, (void** ptr, size_t size)) {
  return answer("ncclMemAlloc", [&] {
    needAddress(ptr, "the address of the pointer");
    *ptr = nullptr;
    if (size == 0) return ncclSuccess;
    if (onDevice()) {
      *ptr = CudaDriver::get().allocate(size);
      return ncclSuccess;
    }
    Buffer buffer = Buffer::allocate(size);
    void* const memory = buffer.data();
    const std::lock_guard lock(allocated().mutex);
    allocated().host.emplace(memory, std::move(buffer));
    *ptr = memory;
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, MemFree, (void* ptr)) {
  return answer("ncclMemFree", [&] {
    if (!ptr) return ncclSuccess;
    {
      const std::lock_guard lock(allocated().mutex);
      if (allocated().host.erase(ptr) > 0) return ncclSuccess;
    }
    if (!onDevice()) refuse(ncclInvalidArgument, "ncclMemAlloc() did not give this memory");
    CudaDriver::get().free(ptr);
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, CommRegister,
            (const ncclComm_t comm, void* buff, size_t size, void** handle)) {
  return answer("ncclCommRegister", [&] {
    const auto member = ncclComm::known(comm).active();
    needAddress(handle, "the address of the handle");
    *handle = member->registerBuffer(buff, size);
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, CommDeregister, (const ncclComm_t comm, void* handle)) {
  return answer("ncclCommDeregister", [&] {
    if (handle) ncclComm::known(comm).member()->deregister(handle);
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, CommWindowRegister,
            (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags)) {
  return answerInGroup("ncclCommWindowRegister", [&] {
    const auto member = ncclComm::known(comm).active();
    needAddress(win, "the address of the window");
    // All flags up to 2.32's are about the GPUs' network, which Rondo does not use here.
    constexpr int kFlags = 0xf;
    if ((winFlags & ~kFlags) != 0)
      refuse(ncclInvalidArgument, "flags " + std::to_string(winFlags) +
                                      " are unknown; valid: 0 to " + std::to_string(kFlags));
    *win = static_cast<ncclWindow_t>(member->registerBuffer(buff, size));
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win)) {
  return answer("ncclCommWindowDeregister", [&] {
    if (win) ncclComm::known(comm).member()->deregister(win);
    return ncclSuccess;
  });
}

} // namespace rondo::compat::nccl
