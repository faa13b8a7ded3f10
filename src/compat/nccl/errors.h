// What calls answer: NCCL's codes, and the text that ncclGetLastError() gives.
#pragma once

#include <string>

#include "compat/nccl/nccl_api.h"
#include "rondo/error.h"

namespace rondo::compat::nccl {

/// A call that is refused, or has failed.
struct Refusal {
  ncclResult_t result = ncclInternalError;
  std::string text;
};

ncclResult_t resultOf(ErrorCode code);
/// What the exception in flight means.
Refusal currentRefusal();

/// From now on the calling thread's last error, and the process's.
void setLastError(const std::string& text);
/// The thread's last error, else the process's; valid until the thread's next call.
const char* lastError();
/// Makes `text` the answer to a question of this thread; valid until its next.
const char* answerText(const std::string& text);

/// Takes note of an error inside a group (group.cc).
void noteInGroup(const Refusal& refusal);

/// Every exported function: no exception leaves it, and what goes wrong is told with its name.
template <class Body>
ncclResult_t answer(const char* function, const Body& body) noexcept {
  try {
    return body();
  } catch (...) {
    Refusal refusal = currentRefusal();
    refusal.text.insert(0, std::string(function) + ": ");
    setLastError(refusal.text);
    noteInGroup(refusal);
    return refusal.result;
  }
}

[[noreturn]] inline void refuse(ncclResult_t result, std::string text) {
  throw Refusal{result, std::move(text)};
}

/// For results' addresses.
inline void needAddress(const void* address, const char* what) {
  if (!address) refuse(ncclInvalidArgument, std::string(what) + " is null");
}

} // namespace rondo::compat::nccl

/// Defines pnccl<name>, with its weak twin as NVIDIA's library has it: a profiler may replace that.
#define NCCL_EXPORT(result, name, parameters)                                          \
  extern "C" __attribute__((weak, alias("pnccl" #name))) result nccl##name parameters; \
  extern "C" result pnccl##name parameters
