// Maps ULFM to Rondo's recovery: MPIX_Comm_revoke, MPIX_Comm_shrink, and the error classes.
//
// The other functions of ULFM are the MPI library's own. A program whose MPI library lacks a
// function that is here gets MPI_ERR_UNSUPPORTED_OPERATION from it.
#include "compat/mpi/ulfm.h"

#include <chrono>
#include <memory>
#include <string_view>
#include <thread>

#include "compat/mpi/communicators.h"
#include "compat/mpi/errors.h"

namespace rondo::compat {

namespace {

// The libraries' numbers. The interposer may be built with an mpi.h that does not have them.
constexpr int kProcessFailed = kForOpenMpi ? 75 : 101;
constexpr int kRevoked = kForOpenMpi ? 77 : 103;
constexpr int kOpenMpisFtKey = 12; ///< attribute of MPI_COMM_WORLD: whether it tolerates failures
#ifdef MPI_ERR_PROC_FAILED
static_assert(kProcessFailed == MPI_ERR_PROC_FAILED && kRevoked == MPI_ERR_REVOKED &&
              kOpenMpisFtKey == MPI_FT);
#endif
#ifdef MPIX_ERR_PROC_FAILED
static_assert(kProcessFailed == MPIX_ERR_PROC_FAILED && kRevoked == MPIX_ERR_REVOKED);
#endif

/// By this text the other ranks know that an abort is a revoke.
constexpr const char* kRevokedText = "MPIX_Comm_revoke() was called";

bool tolerant = false; // written by MPI_Init only

/// Whether the MPI library knows that this rank of the communicator has died.
bool knownToMpi(MPI_Comm comm, MPI_Group all, int rank) {
  MPI_Group failed = MPI_GROUP_NULL;
  int there = MPI_UNDEFINED;
  if (mpi().Comm_get_failed(comm, &failed) != MPI_SUCCESS) return false;
  const int result = mpi().Group_translate_ranks(all, 1, &rank, failed, &there);
  mpi().Group_free(&failed);
  return result == MPI_SUCCESS && there != MPI_UNDEFINED;
}

bool revoked(MPI_Comm comm) {
  int flag = 0;
  return mpi().Comm_is_revoked && mpi().Comm_is_revoked(comm, &flag) == MPI_SUCCESS && flag != 0;
}

/// Waits until the MPI library knows that this rank has died, or that the communicator is revoked.
/// Returns whether it knows of the death.
bool awaitDeath(MPI_Comm comm, int rank) {
  // Launchers tell of a death within milliseconds. One that does not must not block the program.
  constexpr std::chrono::seconds kLimit{5};
  constexpr std::chrono::microseconds kPause{20};
  // The program has freed the communicator of a nonblocking call, so that MPI cannot be asked.
  if (comm == MPI_COMM_SELF) return true;
  const auto end = std::chrono::steady_clock::now() + kLimit;
  MPI_Group all = MPI_GROUP_NULL;
  if (rank < 0 || mpi().Comm_group(comm, &all) != MPI_SUCCESS) return false;
  bool known = false;
  while (!revoked(comm) && !(known = knownToMpi(comm, all, rank)) &&
         std::chrono::steady_clock::now() < end) {
    moveMpi();
    std::this_thread::sleep_for(kPause);
  }
  mpi().Group_free(&all);
  return known;
}

} // namespace

void learnFaultTolerance() {
  int* value = nullptr;
  int found = 0;
  tolerant = kForOpenMpi && mpi().Comm_revoke && mpi().Comm_shrink && mpi().Comm_agree &&
             mpi().Comm_get_failed &&
             mpi().Comm_get_attr(MPI_COMM_WORLD, kOpenMpisFtKey, &value, &found) == MPI_SUCCESS &&
             found && *value != 0;
}

bool faultTolerant() { return tolerant; }

int deadRank(MPI_Comm comm) {
  MPI_Group failed = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
  int count = 0, first = 0, rank = -1;
  if (!tolerant || mpi().Comm_get_failed(comm, &failed) != MPI_SUCCESS) return -1;
  mpi().Group_size(failed, &count);
  if (count > 0 && mpi().Comm_group(comm, &all) == MPI_SUCCESS) {
    mpi().Group_translate_ranks(failed, 1, &first, all, &rank);
    mpi().Group_free(&all);
  }
  mpi().Group_free(&failed);
  return rank;
}

int ulfmClass(MPI_Comm comm, const Error& error) noexcept {
  const std::string_view text = error.what();
  if (error.code() == ErrorCode::aborted && text.ends_with(kRevokedText)) return kRevoked;
  if (!tolerant) return MPI_SUCCESS;
  // A rank that has freed the communicator, and lives, is dead to Rondo but not to MPI.
  const bool death = error.code() == ErrorCode::peer_dead && awaitDeath(comm, error.culprit());
  // A communicator that had failed before it was revoked keeps its first error.
  if (revoked(comm)) return kRevoked;
  return death ? kProcessFailed : MPI_SUCCESS;
}

namespace {

int revoke(MPI_Comm comm) noexcept {
  const int result = callNewer(mpi().Comm_revoke, comm, comm);
  if (result != MPI_SUCCESS) return result;
  try {
    if (Counterpart* const at = findCounterpart(comm))
      for (auto* one : {&at->rondo, &at->immediate})
        if (*one) (*one)->abort(kRevokedText);
    return result;
  } catch (...) {
    return raise(comm, currentFailure(comm));
  }
}

int shrink(MPI_Comm from, MPI_Comm* comm) noexcept {
  const int result = callNewer(mpi().Comm_shrink, from, from, comm);
  if (result != MPI_SUCCESS) return result;
  try {
    makeCounterpartOfLiving(from, *comm);
    return result;
  } catch (...) {
    return raise(*comm, currentFailure(*comm));
  }
}

} // namespace

} // namespace rondo::compat

// The names are declared here because not every mpi.h does.
#define RONDO_MPIX_EXPORT __attribute__((visibility("default")))
extern "C" RONDO_MPIX_EXPORT int MPIX_Comm_revoke(MPI_Comm comm) {
  return rondo::compat::revoke(comm);
}
extern "C" RONDO_MPIX_EXPORT int MPIX_Comm_shrink(MPI_Comm from, MPI_Comm* comm) {
  return rondo::compat::shrink(from, comm);
}
extern "C" RONDO_MPIX_EXPORT int PMPIX_Comm_revoke(MPI_Comm)
    __attribute__((alias("MPIX_Comm_revoke")));
extern "C" RONDO_MPIX_EXPORT int PMPIX_Comm_shrink(MPI_Comm, MPI_Comm*)
    __attribute__((alias("MPIX_Comm_shrink")));
