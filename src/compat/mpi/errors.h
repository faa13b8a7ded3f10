// Rondo's errors as MPI's: a code of the right class, raised at the communicator's error handler.
#pragma once

#include <string>

#include "compat/mpi/mpi_library.h"

namespace rondo::compat {

/// Thrown when a function of the MPI library failed: it has called the error handler itself.
struct MpiFailure {
  int code;
};

/// Throws MpiFailure unless `code` says success.
inline void check(int code) {
  if (code != MPI_SUCCESS) throw MpiFailure{code};
}

/// An error of the call that MPI has a class for.
struct CallFailure {
  int error_class;
  std::string sentence;
};

struct Failure {
  int code = MPI_SUCCESS;
  bool raised = false; ///< the error handler was called already
};

/// MPI's code for the exception that is being handled: of rondo::Error's class, with its sentence
/// for MPI_Error_string where the MPI library keeps sentences; where not, the sentence goes to
/// stderr.
Failure currentFailure() noexcept;

/// Calls the communicator's error handler, unless that was done; returns the code.
int raise(MPI_Comm comm, const Failure& failure) noexcept;

} // namespace rondo::compat
