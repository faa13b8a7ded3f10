// Broadcasts a unique id from rank 0 to all ranks by MPI, and uses MPI for nothing else.
#include "bootstrap/mpi/module.h"

// Only the C interface: the old C++ interface of some MPIs is unused and causes warnings.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdlib>

namespace {

void finalize() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Finalize();
}

} // namespace

const char* rondo_mpi_start(int* rank, int* size) {
  int finalized = 0, initialized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return "MPI was finalized already";
  MPI_Initialized(&initialized);
  if (!initialized) {
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
      return "MPI_Init_thread failed";
    if (std::atexit(finalize) != 0) return "atexit() failed";
  }
  if (MPI_Comm_rank(MPI_COMM_WORLD, rank) != MPI_SUCCESS ||
      MPI_Comm_size(MPI_COMM_WORLD, size) != MPI_SUCCESS)
    return "MPI_Comm_rank or MPI_Comm_size failed";
  return nullptr;
}

const char* rondo_mpi_broadcast(void* bytes128) {
  // On a private communicator, so that messages of the program on MPI_COMM_WORLD are not affected.
  MPI_Comm own = MPI_COMM_NULL;
  if (MPI_Comm_dup(MPI_COMM_WORLD, &own) != MPI_SUCCESS) return "MPI_Comm_dup failed";
  const int result = MPI_Bcast(bytes128, 128, MPI_BYTE, 0, own);
  MPI_Comm_free(&own);
  return result == MPI_SUCCESS ? nullptr : "MPI_Bcast failed";
}
