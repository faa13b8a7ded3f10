// I-forms in flight: each is a generalized request, so that every MPI function understands it.
#pragma once

#include <memory>

#include "compat/mpi/buffers.h"
#include "compat/mpi/communicators.h"
#include "compat/mpi/errors.h"
#include "compat/mpi/mpi_library.h"
#include "rondo/work.h"

namespace rondo::compat {

/// One call in flight. Rondo moves its data; MPI hears of its end in the program's next call of the
/// Wait and Test family, on the program's thread.
struct Pending {
  Pending(std::shared_ptr<Counterpart> counterpart, MPI_Comm comm)
      : at(std::move(counterpart)), staging(comm) {}

  /// Brings the data to the program and completes the request, when Rondo is done with the call.
  /// Waits for that; for at most one thread at a time, as MPI has it for requests.
  void complete() noexcept;
  /// The same, if it is done.
  bool completeIfDone() noexcept;

  std::shared_ptr<Counterpart> at;
  Staging staging;
  Work work; ///< dropped before what it uses
  MPI_Request request = MPI_REQUEST_NULL;
  Failure failure;
  bool completed = false;
};

/// Makes the request. Throws MpiFailure, when the call is over.
void handOver(std::unique_ptr<Pending> pending, MPI_Request* request);

/// Waits for all calls in flight: before MPI_Finalize.
void finishPending() noexcept;

} // namespace rondo::compat
