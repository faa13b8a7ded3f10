// The Rondo communicators that belong to an MPI communicator.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "compat/mpi/mpi_library.h"
#include "compat/mpi/stats.h"
#include "rondo/communicator.h"

namespace rondo::compat {

/// Made once per MPI communicator, by all its ranks in the same call: the one that creates the
/// communicator, or the first blocking collective on it. It is an attribute of the communicator.
/// Nonblocking calls in flight share it, since the program may free the communicator meanwhile.
struct Counterpart : std::enable_shared_from_this<Counterpart> {
  Counterpart() = default;
  Counterpart(const Counterpart&) = delete;
  Counterpart& operator=(const Counterpart&) = delete;
  ~Counterpart();

  std::atomic<MPI_Comm> handle; ///< MPI_COMM_SELF once the program has freed the communicator
  MPI_Errhandler error_handler = MPI_ERRHANDLER_NULL; ///< that of the freed communicator
  int rank = 0, size = 1;
  Reason refused = Reason::none; ///< otherwise there is no Rondo communicator: calls are passed on
  /// Nonblocking calls use a communicator of their own: programs assume that they are not ordered
  /// with the blocking forms, which MPI's text does not promise, but MPI libraries do.
  std::optional<Communicator> rondo, immediate;
  std::size_t sockets = 0; ///< that the channels of both can hold
};

/// To be called after MPI_Init, and before MPI_Finalize.
void startCommunicators();
void stopCommunicators();
bool communicatorsActive();

/// While an object lives, this thread frees the communicator, which has no counterpart for this
/// thread: collectives that the program's attribute callbacks make on it are passed on. In which
/// order the MPI library deletes attributes, Rondo's among them, may differ between ranks. A new
/// counterpart would outlive the communicator, and belong to the next one that gets its handle.
class BeingFreed {
 public:
  explicit BeingFreed(MPI_Comm comm);
  ~BeingFreed();
  BeingFreed(const BeingFreed&) = delete;
  BeingFreed& operator=(const BeingFreed&) = delete;

  /// Whether this thread frees the communicator.
  static bool is(MPI_Comm comm);

 private:
  const MPI_Comm comm_;
  const BeingFreed* const outer_; ///< a callback may free another communicator
};

/// The existing counterpart, or null. Throws MpiFailure for a handle that is no communicator.
Counterpart* findCounterpart(MPI_Comm comm);

/// Returns the counterpart; makes it if there is none. Collective, as every call that gets here is.
/// Null: the MPI library has to report an error for this handle, or is not active, or this thread
/// frees the communicator.
Counterpart* makeCounterpart(MPI_Comm comm);

/// Makes the counterpart of `comm`, which the MPI library has just made from `from`; `comm` is
/// MPI_COMM_NULL on ranks that are not in it. Collective over `from`.
void makeCounterpartFrom(MPI_Comm from, MPI_Comm comm);

/// The same after MPIX_Comm_shrink: `comm` has the ranks of `from` that live. Collective over
/// `comm`.
void makeCounterpartOfLiving(MPI_Comm from, MPI_Comm comm);

/// Whether `here` is true on all ranks, and none is known to have died. All get the same answer,
/// with ULFM also if a rank dies. Collective, and a barrier of the living ranks. With ULFM no rank
/// may call MPIX_Comm_agree of the communicator meanwhile: nothing interrupts it, and it would meet
/// this one. So the program has the communicator on no rank yet, or is in MPI_Finalize on all.
bool everywhere(MPI_Comm comm, bool here);

/// Lets the MPI library make progress. Never waits.
void moveMpi();

/// The existing counterpart, or a new one if this rank is the only one of the
/// communicator; else null.
Counterpart* makeCounterpartAlone(MPI_Comm comm);

/// The counterpart that this thread used last. Programs use few communicators, mostly one at a
/// time; looking here first avoids a search for the attribute, which small calls would notice.
struct LastCounterpart {
  MPI_Comm comm;
  std::uint64_t generation; ///< valid while it equals communicator_generation
  Counterpart* counterpart;
};
extern constinit thread_local LastCounterpart last_counterpart;
/// Grows when a communicator is freed, since its handle may then be given to a new one. Starts at
/// 1. A relaxed load is enough: a thread learns of the reused handle only after the old one was
/// freed, so it sees the new number.
extern std::atomic<std::uint64_t> communicator_generation;

/// `may_meet`: whether a counterpart may be made, which waits for the other ranks.
inline Counterpart* counterpartFor(MPI_Comm comm, bool may_meet) {
  const LastCounterpart& last = last_counterpart;
  if (last.comm == comm &&
      last.generation == communicator_generation.load(std::memory_order_relaxed))
    return last.counterpart;
  return may_meet ? makeCounterpart(comm) : makeCounterpartAlone(comm);
}

} // namespace rondo::compat
