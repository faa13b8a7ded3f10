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
  mismatch,         ///< ranks made different calls, or have different models or gradient
                    ///< options, or only some have a device; the text says which
  peer_dead,        ///< a rank is gone: its process ended, its connection to the control plane
             ///< broke, or it destroyed its communicator while calls of others still needed it
  unresponsive, ///< a rank is silent, and is not known to have ended; from shrink() also: this
                ///< rank can reach too few of the others
  timeout,      ///< a deadline passed; the text says what was waited for, and which ranks are
                ///< late, if that is known
  aborted,      ///< a rank called abort(), or failed for a reason of its own
  init_failed,  ///< a communicator could not be made: ranks are missing, or their versions,
                ///< RONDO_TLS or transports do not fit; the text says which
  transport,    ///< a connection failed, or carried invalid data
  unsupported,  ///< valid, but this build or machine cannot do it
  system,       ///< the operating system refused a resource; the text holds errno's message
  data,         ///< a file is missing or damaged
  wrong_result, ///< a rank computed a wrong result; only with Options::check_reductions
};

RONDO_API std::string_view name(ErrorCode code);

/// Thrown only on the caller's thread, by the call or by Work::wait().
class RONDO_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what, int culprit = -1)
      : std::runtime_error(what), code_(code), culprit_(culprit) {}

  ErrorCode code() const { return code_; }
  /// The rank that caused the error, or -1: its number in the communicator on which the function
  /// was called, or which create() or join() was making. If a newcomer caused an error of grow():
  /// its number in the new communicator.
  int culprit() const { return culprit_; }

 private:
  ErrorCode code_;
  int culprit_;
};

} // namespace rondo
