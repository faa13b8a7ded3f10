// Names of the error codes.
#include "rondo/error.h"

namespace rondo {

std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::mismatch: return "mismatch";
    case ErrorCode::peer_dead: return "peer_dead";
    case ErrorCode::unresponsive: return "unresponsive";
    case ErrorCode::timeout: return "timeout";
    case ErrorCode::aborted: return "aborted";
    case ErrorCode::init_failed: return "init_failed";
    case ErrorCode::transport: return "transport";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::system: return "system";
    case ErrorCode::data: return "data";
    case ErrorCode::wrong_result: return "wrong_result";
  }
  return "unknown";
}

} // namespace rondo
