// Finds the MPI library's own functions.
#include "compat/mpi/mpi_library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace rondo::compat {

namespace {

template <class Function>
Function find(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  if (!found) {
    // Nothing can be called, so nothing can be reported through MPI either.
    std::fprintf(stderr, "rondo_mpi: no %s behind this library: it was built for another MPI\n",
                 name);
    std::abort();
  }
  return reinterpret_cast<Function>(found);
}

} // namespace

const MpiLibrary& mpi() {
  static const MpiLibrary library = {
#define RONDO_MPI_FIND(name) find<decltype(&PMPI_##name)>("PMPI_" #name),
      RONDO_MPI_ENTRY_POINTS(RONDO_MPI_FIND)
#undef RONDO_MPI_FIND
  };
  return library;
}

} // namespace rondo::compat
