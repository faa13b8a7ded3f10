// Translates Rondo's errors to MPI's: a code of the right class, raised at the communicator's
// error handler.
#pragma once

#include <string>

#include "compat/mpi/mpi_library.h"

namespace rondo::compat {

/// Thrown when a function of the MPI library failed; it has called the error handler already.
struct MpiFailure {
  int code;
};

/// Throws MpiFailure unless `code` is MPI_SUCCESS.
inline void check(int code) {
  if (code != MPI_SUCCESS) throw MpiFailure{code};
}

/// An error in the call for which MPI has a class.
struct CallFailure {
  int error_class;
  std::string sentence;
};

struct Failure {
  int code = MPI_SUCCESS;
  bool raised = false; ///< the error handler was called already
};

/// Returns MPI's code for the exception that is being handled, of a call of `comm`. The text of a
/// rondo::Error is available by MPI_Error_string if the MPI library supports that; otherwise it is
/// printed on stderr.
Failure currentFailure(MPI_Comm comm) noexcept;

/// Calls the communicator's error handler, unless it was called already; returns the code.
int raise(MPI_Comm comm, const Failure& failure) noexcept;

/// Calls a function that this MPI library may lack. Then this is an error of the communicator.
template <class Function, class... Arguments>
int callNewer(Function* function, MPI_Comm comm, Arguments... arguments) {
  return function ? function(arguments...) : raise(comm, {MPI_ERR_UNSUPPORTED_OPERATION});
}

/// While an object lives, errors of the communicator are returned instead of raised.
class ErrorsReturned {
 public:
  explicit ErrorsReturned(MPI_Comm comm);
  ~ErrorsReturned();
  ErrorsReturned(const ErrorsReturned&) = delete;
  ErrorsReturned& operator=(const ErrorsReturned&) = delete;

 private:
  const MPI_Comm comm_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

} // namespace rondo::compat
