// Error: the only exception type. It has a code to branch on, a text, and the rank that caused it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "rondo/export.h"

namespace rondo {

enum class ErrorCode {
  invalid_argument, ///< the call is wrong; nothing was sent, the communicator stays usable (but a
                    ///< GradientReducer aborts it, so that no rank waits)
  mismatch,         ///< ranks made different calls; the text names both
  peer_dead,        ///< a rank's process ended or its connection broke
  unresponsive,     ///< a rank's process exists but its heartbeat stopped
  timeout,          ///< a deadline passed: the text names operation, sequence number, rank and step
  aborted,          ///< a rank called abort(), or failed for a reason of its own
  init_failed,      ///< ranks did not find each other; the text lists the missing ones
  transport,        ///< a connection failed, or carried invalid data
  unsupported,      ///< valid, but this build or machine cannot do it
  system,           ///< the operating system refused a resource; the text holds errno's message
  data,             ///< a file is missing or damaged
};

RONDO_API std::string_view name(ErrorCode code);

/// Thrown only on the caller's thread, by the call or by Work::wait().
class RONDO_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what, int culprit = -1)
      : std::runtime_error(what), code_(code), culprit_(culprit) {}

  ErrorCode code() const { return code_; }
  /// The rank that caused the error, in the communicator of the call, or -1.
  int culprit() const { return culprit_; }

 private:
  ErrorCode code_;
  int culprit_;
};

} // namespace rondo
