# Finds oneDNN 2 or 3 by its header and library: target dnnl::dnnl, variables Dnnl_FOUND and
# Dnnl_VERSION; Dnnl_PROBLEM says why a oneDNN that is there cannot be used. Dnnl_ROOT and
# CMAKE_PREFIX_PATH name another folder than the system's. Debian's CMake package of oneDNN would
# require OpenCL's headers, which are not needed here.
if(Dnnl_INCLUDE_DIR AND NOT EXISTS ${Dnnl_INCLUDE_DIR}/oneapi/dnnl/dnnl.hpp)
  unset(Dnnl_INCLUDE_DIR CACHE)
  unset(Dnnl_LIBRARY CACHE)
endif()
find_path(Dnnl_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
# The library of the same installation comes first.
find_library(Dnnl_LIBRARY dnnl HINTS ${Dnnl_INCLUDE_DIR}/.. PATH_SUFFIXES lib lib64)
mark_as_advanced(Dnnl_INCLUDE_DIR Dnnl_LIBRARY)

set(Dnnl_PROBLEM "")
set(Dnnl_VERSION "")
set(dnnl_headers ${Dnnl_INCLUDE_DIR}/oneapi/dnnl)
if(EXISTS ${dnnl_headers}/dnnl_version.h AND EXISTS ${dnnl_headers}/dnnl_config.h)
  file(STRINGS ${dnnl_headers}/dnnl_version.h dnnl_lines REGEX "VERSION_(MAJOR|MINOR|PATCH) +[0-9]")
  foreach(line IN LISTS dnnl_lines)
    string(REGEX REPLACE ".* " "." number "${line}")
    string(APPEND Dnnl_VERSION ${number})
  endforeach()
  string(REGEX REPLACE "^[.]" "" Dnnl_VERSION "${Dnnl_VERSION}")
  # A SYCL build only queues primitives, and finds no processor without OpenCL's driver for CPUs.
  file(STRINGS ${dnnl_headers}/dnnl_config.h dnnl_lines
       REGEX "define DNNL_CPU_RUNTIME DNNL_RUNTIME_(SYCL|DPCPP)")
  if(dnnl_lines)
    set(Dnnl_PROBLEM "oneDNN ${Dnnl_VERSION} in ${Dnnl_INCLUDE_DIR} computes by SYCL; use a build")
    string(APPEND Dnnl_PROBLEM " with OpenMP, such as PyPI's onednn-devel-cpu-gomp")
    set(dnnl_usable FALSE)
    unset(Dnnl_INCLUDE_DIR CACHE) # the next run of CMake looks again
    unset(Dnnl_LIBRARY CACHE)
  else()
    set(dnnl_usable TRUE)
  endif()
endif()

include(FindPackageHandleStandardArgs)
set(Dnnl_FIND_QUIETLY TRUE)
find_package_handle_standard_args(Dnnl REQUIRED_VARS Dnnl_LIBRARY Dnnl_INCLUDE_DIR dnnl_usable
                                  VERSION_VAR Dnnl_VERSION)

if(Dnnl_FOUND AND NOT TARGET dnnl::dnnl)
  add_library(dnnl::dnnl UNKNOWN IMPORTED)
  set_target_properties(dnnl::dnnl PROPERTIES IMPORTED_LOCATION ${Dnnl_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${Dnnl_INCLUDE_DIR})
endif()
