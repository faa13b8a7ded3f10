// Nonblocking calls in flight. Each is a generalized request, which all MPI functions accept.
#pragma once

#include <memory>
#include <mutex>

#include "compat/mpi/buffers.h"
#include "compat/mpi/communicators.h"
#include "compat/mpi/errors.h"
#include "compat/mpi/mpi_library.h"
#include "rondo/work.h"

namespace rondo::compat {

/// One call in flight. Rondo moves its data. The MPI library learns that it is complete when the
/// program next calls a function of the Wait and Test family, on the program's thread.
struct Pending {
  Pending(std::shared_ptr<Counterpart> counterpart, MPI_Comm comm)
      : at(std::move(counterpart)), staging(comm) {}

  /// Waits until Rondo has finished the call, delivers the data to the program and completes the
  /// request. Several threads may ask for the state of one request at the same time.
  void complete() noexcept;
  /// Does the same if Rondo has finished the call; never waits. Returns whether it is complete.
  bool completeIfDone() noexcept;

  std::shared_ptr<Counterpart> at;
  Staging staging;
  Work work; ///< declared last of the three, so that it is destroyed before what it uses
  MPI_Request request = MPI_REQUEST_NULL;
  Failure failure;
  bool completed = false;
  std::mutex mutex; ///< for completing it once

 private:
  template <class Done>
  bool completeIf(const Done& done) noexcept;
  void finish() noexcept;
};

/// Makes the request. If MPI refuses, waits for the call and throws MpiFailure.
void handOver(std::unique_ptr<Pending> pending, MPI_Request* request);

/// For MPI_Finalize: waits for the calls that the program has not completed. One that other ranks
/// do not enter ends after Options::init_timeout. Prints the errors, which name call and rank.
void finishPending() noexcept;

} // namespace rondo::compat
