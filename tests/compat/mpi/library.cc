// Finds the MPI library's own functions, also if an interposer is preloaded.
#include "library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace rondo::test {
namespace {

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "compat_mpi: %s: %s\n", what, dlerror());
  std::exit(2);
}

/// The library that defines a function which no library interposes.
void* mpiLibrary() {
  Dl_info info{};
  void* const known = dlsym(RTLD_DEFAULT, "MPI_Get_processor_name");
  if (known == nullptr || dladdr(known, &info) == 0) stop("MPI_Get_processor_name");
  void* const handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) stop(info.dli_fname);
  return handle;
}

template <typename Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) stop(name);
}

#if MPI_VERSION >= 4
#define COMPAT_LARGE_NAMES(blocking, immediate) MPI_##blocking##_c, MPI_##immediate##_c,
#define COMPAT_LARGE_PROFILING_NAMES(blocking, immediate) PMPI_##blocking##_c, PMPI_##immediate##_c,
constexpr LargeFunctions kLarge{COMPAT_COUNTED(COMPAT_LARGE_NAMES) MPI_Barrier, MPI_Ibarrier};
constexpr LargeFunctions kLargeByProfilingName{
    COMPAT_COUNTED(COMPAT_LARGE_PROFILING_NAMES) PMPI_Barrier, PMPI_Ibarrier};
#else
constexpr LargeFunctions kLarge, kLargeByProfilingName;
#endif

/// The original's large-count forms are not needed.
Library findOriginal() {
  Library library;
  void* const handle = mpiLibrary();
#define COMPAT_FIND(blocking, immediate)             \
  find(handle, "PMPI_" #blocking, library.blocking); \
  find(handle, "PMPI_" #immediate, library.immediate);
  COMPAT_COLLECTIVES(COMPAT_FIND)
#undef COMPAT_FIND
  return library;
}

} // namespace

const Library& called() {
#define COMPAT_NAMES(blocking, immediate) MPI_##blocking, MPI_##immediate,
  static const Library library{{COMPAT_COLLECTIVES(COMPAT_NAMES)}, kLarge};
#undef COMPAT_NAMES
  return library;
}

const Library& calledByProfilingName() {
#define COMPAT_NAMES(blocking, immediate) PMPI_##blocking, PMPI_##immediate,
  static const Library library{{COMPAT_COLLECTIVES(COMPAT_NAMES)}, kLargeByProfilingName};
#undef COMPAT_NAMES
  return library;
}

const Library& original() {
  static const Library library = findOriginal();
  return library;
}

} // namespace rondo::test
