# Prints what was found, and what its absence costs.
function(rondo_report name found costs)
  if(found)
    message(NOTICE "  ${name}: found")
  else()
    message(NOTICE "  ${name}: not found - ${costs}")
  endif()
endfunction()

message(NOTICE "")
message(NOTICE "Rondo ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE} build, "
               "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
if(RONDO_SANITIZE)
  message(NOTICE "  Sanitizers: ${RONDO_SANITIZE}")
endif()
message(NOTICE "  OpenSSL ${OPENSSL_VERSION}, Highway ${hwy_VERSION}, zlib ${ZLIB_VERSION_STRING}, "
               "CLI11 ${CLI11_VERSION}, nlohmann_json ${nlohmann_json_VERSION}: found (required)")
rondo_report("oneDNN" "${Dnnl_FOUND}"
             "the trainer cannot run a model (Debian: libdnnl-dev)")
if(RONDO_HAVE_CUDA)
  message(NOTICE "  CUDA ${CMAKE_CUDA_COMPILER_VERSION}: found, for ${CMAKE_CUDA_ARCHITECTURES}")
else()
  rondo_report("CUDA" OFF "the GPU kernels are not built (${RONDO_CUDA_MISSING})")
endif()
rondo_report("MPI" "${MPI_CXX_FOUND}"
             "under mpirun ranks meet by environment variables only (Debian: libopenmpi-dev)")
rondo_report("  interposer for Open MPI" "${rondo_mpi_built}"
             "Open MPI's programs keep their own collectives (Debian: libopenmpi-dev, pkg-config)")
rondo_report("  interposer for MPICH" "${rondo_mpich_built}"
             "MPICH's programs keep their own collectives (Debian: libmpich-dev, pkg-config)")
if(RONDO_TESTS)
  rondo_report("Catch2" "${Catch2_FOUND}" "no tests (Debian: catch2)")
  rondo_report("Python" "${Python3_FOUND}" "no tests (Debian: python3)")
else()
  message(NOTICE "  Tests: off (RONDO_TESTS)")
endif()
if(RONDO_BENCH)
  rondo_report("Google Benchmark" "${benchmark_FOUND}"
               "no micro-benchmarks of the CPU in bench/ (Debian: libbenchmark-dev)")
else()
  message(NOTICE "  Micro-benchmarks: off (RONDO_BENCH)")
endif()
message(NOTICE "  Looked for, nothing in this version uses them:")
rondo_report("  hwloc" "${RONDO_HWLOC_FOUND}" "costs nothing yet")
rondo_report("  UCX" "${RONDO_UCX_FOUND}" "costs nothing yet")
message(NOTICE "")
