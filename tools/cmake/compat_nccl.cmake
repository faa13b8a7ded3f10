# Builds libnccl.so.2 over Rondo's public API. It needs no CUDA toolkit; if one with nccl.h is
# found, our declarations are compared with it. The library is in a folder of its own: next to
# librondo it would be found before NVIDIA's NCCL by programs that only want Rondo.
if(RONDO_WITH_NCCL)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/compat/nccl/*.cc)
  list(FILTER sources EXCLUDE REGEX "/header_check\\.cc$")
  set(exports ${PROJECT_SOURCE_DIR}/src/compat/nccl/exports.map)
  add_library(rondo_nccl SHARED ${sources})
  target_include_directories(rondo_nccl PRIVATE ${PROJECT_SOURCE_DIR}/include
                                                ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(rondo_nccl PRIVATE rondo_shared ${CMAKE_DL_LIBS} rondo_flags)
  target_link_options(rondo_nccl PRIVATE LINKER:--as-needed LINKER:--version-script=${exports})
  set_target_properties(rondo_nccl PROPERTIES
    OUTPUT_NAME nccl SOVERSION 2 LINK_DEPENDS ${exports} CXX_VISIBILITY_PRESET default
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/rondo
    INSTALL_RPATH "$ORIGIN/.." BUILD_WITH_INSTALL_RPATH ON)
  rondo_precompile(rondo_nccl)
  if(RONDO_INSTALL)
    install(TARGETS rondo_nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/rondo
            COMPONENT library NAMELINK_COMPONENT links)
  endif()

  find_path(RONDO_NCCL_HEADER nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
  find_path(RONDO_CUDA_RUNTIME_HEADER cuda_runtime.h HINTS ${RONDO_NCCL_HEADER})
  mark_as_advanced(RONDO_NCCL_HEADER RONDO_CUDA_RUNTIME_HEADER)
  if(RONDO_NCCL_HEADER AND RONDO_CUDA_RUNTIME_HEADER)
    add_library(rondo_nccl_check OBJECT ${PROJECT_SOURCE_DIR}/src/compat/nccl/header_check.cc)
    target_include_directories(rondo_nccl_check PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_include_directories(rondo_nccl_check SYSTEM PRIVATE ${RONDO_NCCL_HEADER}
                               ${RONDO_CUDA_RUNTIME_HEADER})
    target_link_libraries(rondo_nccl_check PRIVATE rondo_flags)
    add_dependencies(rondo_nccl rondo_nccl_check)
  endif()
endif()
