// MPI_Init, MPI_Init_thread and MPI_Finalize: between them collectives are taken over.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "compat/mpi/communicators.h"
#include "compat/mpi/datatypes.h"
#include "compat/mpi/requests.h"
#include "compat/mpi/stats.h"

namespace rondo::compat {

namespace {

/// Ends the process under another MPI: its handles cannot even be passed on, for their types
/// differ.
void refuseOtherMpi() {
  std::array<char, 16384> text{}; // more than any MPI's limit
  int length = 0;
  PMPI_Get_library_version(text.data(), &length);
  std::string_view version(text.data());
  version = version.substr(0, version.find_first_of("\n,"));
  if (version.starts_with("Open MPI") == kForOpenMpi) return;
  std::fprintf(stderr,
               "rondo_mpi: this library was built for %s, the program uses %.*s: preload %s\n",
               kForOpenMpi ? "Open MPI" : "MPICH", static_cast<int>(version.size()), version.data(),
               kForOpenMpi ? "librondo_mpich.so" : "librondo_mpi.so");
  std::exit(EXIT_FAILURE);
}

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

extern "C" int MPI_Init(int* argc, char*** argv) {
  refuseOtherMpi();
  return started(mpi().Init(argc, argv));
}

extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  refuseOtherMpi();
  return started(mpi().Init_thread(argc, argv, required, provided));
}

extern "C" int MPI_Finalize() {
  if (communicatorsActive()) {
    finishPending();
    if (statsWanted()) printStats();
    // Rondo takes leave of all ranks when none of them is in a collective any more.
    mpi().Barrier(MPI_COMM_WORLD);
    stopCommunicators();
  }
  return mpi().Finalize();
}

RONDO_MPI_EXPORT(Init);
RONDO_MPI_EXPORT(Init_thread);
RONDO_MPI_EXPORT(Finalize);
