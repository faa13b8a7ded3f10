# Finds the libraries that Rondo is built on. An optional one sets a target, or leaves it undefined.
# The library:
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(hwy REQUIRED)
# The trainer; and the command:
find_package(ZLIB QUIET)
if(RONDO_WITH_DNNL)
  find_package(Dnnl MODULE)
endif()
find_package(CLI11 QUIET)
find_package(nlohmann_json QUIET)

if(RONDO_WITH_MPI)
  # The C interface is enough; the deprecated C++ one would only be linked for nothing.
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI COMPONENTS CXX QUIET)
endif()
if(RONDO_TESTS)
  find_package(Catch2 QUIET)
  find_package(Python3 QUIET COMPONENTS Interpreter)
endif()
if(RONDO_BENCH)
  find_package(benchmark QUIET)
endif()

# Found and reported only.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(RONDO_HWLOC QUIET hwloc)
endif()

set(RONDO_UCX_MISSING "")
if(NOT RONDO_WITH_UCX)
  set(RONDO_UCX_MISSING "not built (RONDO_WITH_UCX is off)")
else()
  if(PkgConfig_FOUND)
    pkg_check_modules(RONDO_UCX QUIET IMPORTED_TARGET ucx>=1.13)
  endif()
  if(NOT RONDO_UCX_FOUND)
    set(RONDO_UCX_MISSING "not built (no UCX 1.13 or newer was found)")
  endif()
endif()

include(cuda)
