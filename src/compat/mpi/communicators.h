// The Rondo communicator beside each MPI communicator.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "compat/mpi/mpi_library.h"
#include "compat/mpi/stats.h"
#include "rondo/communicator.h"

namespace rondo::compat {

/// Made once per MPI communicator, by all of its ranks at the same call: the one that makes the
/// communicator, or the first blocking collective on it. Kept as its attribute.
/// Shared with the I-forms in flight: the program may free the communicator meanwhile.
struct Counterpart : std::enable_shared_from_this<Counterpart> {
  std::atomic<MPI_Comm> handle; ///< MPI_COMM_SELF once the program has freed the communicator
  int rank = 0, size = 1;
  Reason refused = Reason::none; ///< else there is no Rondo communicator: all calls are passed on
  /// I-forms have one of their own: like MPI libraries, and unlike MPI's text, programs take it
  /// that they are not ordered with the blocking forms.
  std::optional<Communicator> rondo, immediate;
  std::size_t sockets = 0; ///< that the channels of both may hold
};

/// After MPI_Init; before MPI_Finalize.
void startCommunicators();
void stopCommunicators();
bool communicatorsActive();

/// The counterpart that is there already, or null.
Counterpart* findCounterpart(MPI_Comm comm);

/// Collective, as every call that leads here is: makes the counterpart if there is none. Null: MPI
/// has an error to report for this handle, or is not active.
Counterpart* makeCounterpart(MPI_Comm comm);

/// Collective over `from`, out of which the MPI library has just made `comm`, which is
/// MPI_COMM_NULL on the ranks that are not in it: makes the counterpart of `comm`.
void makeCounterpartFrom(MPI_Comm from, MPI_Comm comm);

/// The counterpart that is there already, or that this rank can make because it is the only one.
Counterpart* makeCounterpartAlone(MPI_Comm comm);

/// The last one that this thread used. Programs use few communicators, most of them one at a time:
/// a look here instead of an attribute search is what makes a small call cheap.
struct LastCounterpart {
  MPI_Comm comm;
  std::uint64_t generation; ///< valid while it equals the global one
  Counterpart* counterpart;
};
extern constinit thread_local LastCounterpart last_counterpart
    __attribute__((tls_model("initial-exec")));
/// Grows when a communicator is freed, for its handle may be given to a new one. From 1 on. Who
/// gets the new handle learned of it after the old one was freed, so a relaxed look sees the new
/// number.
extern std::atomic<std::uint64_t> communicator_generation;

/// `may_meet`: whether it may be made, which waits for the other ranks.
inline Counterpart* counterpartFor(MPI_Comm comm, bool may_meet) {
  const LastCounterpart& last = last_counterpart;
  if (last.comm == comm &&
      last.generation == communicator_generation.load(std::memory_order_relaxed))
    return last.counterpart;
  return may_meet ? makeCounterpart(comm) : makeCounterpartAlone(comm);
}

} // namespace rondo::compat
