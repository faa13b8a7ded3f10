// MPI's User Level Failure Mitigation (ULFM), for libraries that have it.
#pragma once

#include "compat/mpi/mpi_library.h"
#include "rondo/error.h"

namespace rondo::compat {

/// Finds out whether this job goes on after a rank died. To be called after MPI_Init.
void learnFaultTolerance();
/// The result, which is the same on all ranks.
bool faultTolerant();

/// A rank of the communicator that the MPI library knows to have died, or -1.
int deadRank(MPI_Comm comm);

/// The error class of ULFM for an error of the communicator's calls, or MPI_SUCCESS if it has none.
/// After the death of a rank this waits until the MPI library has heard of it too, or of a revoke,
/// so that the functions that the program calls next take it into account. It has no class if the
/// MPI library hears of neither within 5 s.
int ulfmClass(MPI_Comm comm, const Error& error) noexcept;

} // namespace rondo::compat
