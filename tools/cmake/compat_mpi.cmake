# The MPI interposers: one source, built for each MPI that is found. Included after the library.

# rondo_interposer(NAME PACKAGES...): target rondo_NAME, for the MPI of the first pkg-config package
# that is there; rondo_NAME_built says whether there is one.
function(rondo_interposer name)
  string(TOUPPER ${name} variable)
  foreach(package IN LISTS ARGN)
    pkg_check_modules(RONDO_${variable} QUIET IMPORTED_TARGET ${package})
    if(RONDO_${variable}_FOUND)
      break()
    endif()
  endforeach()
  if(NOT RONDO_${variable}_FOUND)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/compat/mpi/*.cc)
  set(exports ${PROJECT_SOURCE_DIR}/src/compat/mpi/exports.map)
  add_library(rondo_${name} SHARED ${sources})
  set(rondo_${name}_built ON PARENT_SCOPE)
  target_include_directories(rondo_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include
                                                   ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(rondo_${name} PRIVATE rondo_shared PkgConfig::RONDO_${variable}
                        ${CMAKE_DL_LIBS} rondo_flags)
  # Of what the package names only libmpi itself is used.
  target_link_options(rondo_${name} PRIVATE LINKER:--as-needed LINKER:--version-script=${exports})
  set_target_properties(rondo_${name} PROPERTIES LINK_DEPENDS ${exports} INSTALL_RPATH "$ORIGIN"
                        BUILD_WITH_INSTALL_RPATH ON)
  if(RONDO_INSTALL)
    install(TARGETS rondo_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endfunction()

# MPI programs cannot preload a sanitizer's run time.
if(RONDO_WITH_MPI AND PkgConfig_FOUND AND NOT RONDO_SANITIZE)
  rondo_interposer(mpi ompi-c ompi)
  rondo_interposer(mpich mpich)
endif()
