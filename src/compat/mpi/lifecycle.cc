// MPI_Init, MPI_Init_thread and MPI_Finalize: between them collectives are taken over.
#include "compat/mpi/communicators.h"
#include "compat/mpi/datatypes.h"
#include "compat/mpi/requests.h"
#include "compat/mpi/stats.h"

namespace rondo::compat {

namespace {

int started(int result) noexcept {
  if (result != MPI_SUCCESS || communicatorsActive()) return result;
  readStatsSetting();
  learnPredefined();
  startCommunicators();
  return result;
}

} // namespace

} // namespace rondo::compat

using namespace rondo::compat;

extern "C" int MPI_Init(int* argc, char*** argv) { return started(mpi().Init(argc, argv)); }

extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return started(mpi().Init_thread(argc, argv, required, provided));
}

extern "C" int MPI_Finalize() {
  if (communicatorsActive()) {
    finishPending();
    // Rondo may disconnect from the other ranks only when none of them is in a collective any more.
    // printStats() is a collective, so after it all living ranks have arrived here.
    printStats();
    stopCommunicators();
  }
  return mpi().Finalize();
}

RONDO_MPI_EXPORT(Init);
RONDO_MPI_EXPORT(Init_thread);
RONDO_MPI_EXPORT(Finalize);
