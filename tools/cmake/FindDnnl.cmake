# Finds oneDNN by its header and library: target dnnl::dnnl, variable Dnnl_FOUND. Debian's CMake
# package of oneDNN would require OpenCL's headers, which are not needed here.
find_path(Dnnl_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(Dnnl_LIBRARY dnnl)
mark_as_advanced(Dnnl_INCLUDE_DIR Dnnl_LIBRARY)

include(FindPackageHandleStandardArgs)
set(Dnnl_FIND_QUIETLY TRUE)
find_package_handle_standard_args(Dnnl REQUIRED_VARS Dnnl_LIBRARY Dnnl_INCLUDE_DIR)

if(Dnnl_FOUND AND NOT TARGET dnnl::dnnl)
  add_library(dnnl::dnnl UNKNOWN IMPORTED)
  set_target_properties(dnnl::dnnl PROPERTIES IMPORTED_LOCATION ${Dnnl_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${Dnnl_INCLUDE_DIR})
endif()
