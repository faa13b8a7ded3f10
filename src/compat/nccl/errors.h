// Errors of the NCCL interface: result codes, and the texts that ncclGetLastError() returns.
#pragma once

#include <string>

#include "compat/nccl/nccl_api.h"
#include "rondo/error.h"

namespace rondo::compat::nccl {

/// The exception for a call that is refused or has failed.
struct Refusal {
  ncclResult_t result = ncclInternalError;
  std::string text;
};

ncclResult_t resultOf(ErrorCode code);
/// Converts the exception that is being handled. Call only inside a catch block.
Refusal currentRefusal();

/// Sets the last error of the calling thread and of the process.
void setLastError(const std::string& text);
/// Returns the thread's last error, or the process's if the thread had none. Valid until the
/// thread's next call.
const char* lastError();
/// Copies `text` to memory of this thread and returns it. Valid until the thread's next call.
const char* answerText(const std::string& text);

/// Records the error in the calling thread's group, if one is open (group.cc).
void noteInGroup(const Refusal& refusal);

/// The frame of every exported function: turns exceptions into result codes, and puts the
/// function's name in front of the error text.
template <class Body>
ncclResult_t answer(const char* function, const Body& body, bool fails_group = false) noexcept {
  try {
    return body();
  } catch (...) {
    Refusal refusal = currentRefusal();
    refusal.text.insert(0, std::string(function) + ": ");
    setLastError(refusal.text);
    if (fails_group) noteInGroup(refusal);
    return refusal.result;
  }
}

/// The same for functions that move data, and that make or end communicators: as in NCCL, their
/// error is also that of the thread's open group. Errors of queries are not.
template <class Body>
ncclResult_t answerInGroup(const char* function, const Body& body) noexcept {
  return answer(function, body, true);
}

[[noreturn]] inline void refuse(ncclResult_t result, std::string text) {
  throw Refusal{result, std::move(text)};
}

/// Refuses a null address of a result.
inline void needAddress(const void* address, const char* what) {
  if (!address) refuse(ncclInvalidArgument, std::string(what) + " is null");
}

} // namespace rondo::compat::nccl

/// Defines pnccl<name> and its weak alias nccl<name>, as NVIDIA's library does. A profiler may
/// replace the alias.
#define NCCL_EXPORT(result, name, parameters)                                          \
  extern "C" __attribute__((weak, alias("pnccl" #name))) result nccl##name parameters; \
  extern "C" result pnccl##name parameters
