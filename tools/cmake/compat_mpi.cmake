# Builds the MPI interposers, one for each ABI, from the same sources. To be included after the
# library. They are linked with no MPI library, so one build serves all MPI libraries of its ABI.

# rondo_interposer(NAME [INCLUDE...]): target rondo_NAME. INCLUDE: the folders of an mpi.h; without
# them it is for MPI's standard ABI. Sets rondo_NAME_built if it is built.
function(rondo_interposer name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/compat/mpi/*.cc)
  set(exports ${PROJECT_SOURCE_DIR}/src/compat/mpi/exports.map)
  add_library(rondo_${name} SHARED ${sources})
  set(rondo_${name}_built ON PARENT_SCOPE)
  target_include_directories(rondo_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include
                                                   ${PROJECT_SOURCE_DIR}/src)
  if(ARGN)
    target_include_directories(rondo_${name} SYSTEM PRIVATE ${ARGN})
  else()
    target_compile_definitions(rondo_${name} PRIVATE RONDO_MPI_STANDARD_ABI)
  endif()
  target_link_libraries(rondo_${name} PRIVATE rondo_shared ${CMAKE_DL_LIBS} rondo_flags)
  target_link_options(rondo_${name} PRIVATE LINKER:-z,defs LINKER:--version-script=${exports})
  set_target_properties(rondo_${name} PROPERTIES LINK_DEPENDS ${exports} INSTALL_RPATH "$ORIGIN"
                        BUILD_WITH_INSTALL_RPATH ON)
  rondo_precompile(rondo_${name})
  if(RONDO_INSTALL)
    install(TARGETS rondo_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
            COMPONENT library)
  endif()
endfunction()

# MPI programs cannot preload a sanitizer's runtime.
if(RONDO_WITH_MPI AND NOT RONDO_SANITIZE)
  if(PkgConfig_FOUND)
    pkg_search_module(RONDO_OPENMPI QUIET ompi-c ompi)
    pkg_search_module(RONDO_MPICH QUIET mpich impi)
  endif()
  if(RONDO_OPENMPI_FOUND)
    rondo_interposer(mpi ${RONDO_OPENMPI_INCLUDE_DIRS})
  endif()
  if(RONDO_MPICH_FOUND)
    rondo_interposer(mpich ${RONDO_MPICH_INCLUDE_DIRS})
  endif()
  rondo_interposer(mpi_abi)
endif()
