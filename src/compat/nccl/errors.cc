// Converts exceptions to NCCL's result codes, and keeps the text of the last error.
#include "compat/nccl/errors.h"

#include <mutex>
#include <new>

namespace rondo::compat::nccl {

namespace {

thread_local std::string own_last, own_answer;

/// The process's last error. Programs may ask for it in another thread than the one that failed.
struct Shared {
  std::mutex mutex;
  std::string text;
};
Shared& shared() {
  static auto& one = *new Shared; // never destroyed: other threads may call while the process exits
  return one;
}

} // namespace

ncclResult_t resultOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return ncclInvalidArgument;
    case ErrorCode::mismatch:
    case ErrorCode::unsupported: return ncclInvalidUsage;
    case ErrorCode::peer_dead:
    case ErrorCode::unresponsive:
    case ErrorCode::timeout:
    case ErrorCode::aborted:
    case ErrorCode::init_failed:
    case ErrorCode::transport:
    case ErrorCode::wrong_result: return ncclRemoteError;
    case ErrorCode::system:
    case ErrorCode::data: return ncclSystemError;
  }
  return ncclInternalError;
}

Refusal currentRefusal() {
  try {
    throw;
  } catch (const Refusal& refusal) {
    return refusal;
  } catch (const Error& error) {
    return {resultOf(error.code()), error.what()};
  } catch (const std::bad_alloc&) {
    return {ncclSystemError, "there is no memory left"};
  } catch (const std::exception& error) {
    return {ncclInternalError, error.what()};
  }
}

void setLastError(const std::string& text) {
  own_last = text;
  const std::lock_guard lock(shared().mutex);
  shared().text = text;
}

const char* lastError() {
  if (!own_last.empty()) return own_last.c_str();
  const std::lock_guard lock(shared().mutex);
  return answerText(shared().text);
}

const char* answerText(const std::string& text) {
  own_answer = text;
  return own_answer.c_str();
}

} // namespace rondo::compat::nccl
