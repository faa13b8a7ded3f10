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
  pkg_check_modules(RONDO_UCX QUIET ucx)
endif()

include(cuda)
