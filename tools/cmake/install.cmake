# Installs headers, libraries, modules, the command, a CMake package and pkg-config files.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)

if(NOT TARGET rondo_trainer)
  set(absent PATTERN train.h EXCLUDE)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/rondo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" ${absent})
if(TARGET rondo_bootstrap_mpi)
  install(TARGETS rondo_bootstrap_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET rondo_ucx)
  install(TARGETS rondo_ucx LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET rondo_train_cudnn)
  install(TARGETS rondo_train_cudnn LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET rondo_hwloc)
  install(TARGETS rondo_hwloc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET rondo_cli)
  install(TARGETS rondo_cli)
endif()

foreach(kind shared static)
  install(TARGETS rondo_${kind} EXPORT rondo-${kind})
  install(EXPORT rondo-${kind} NAMESPACE rondo:: DESTINATION ${package_dir})
  if(TARGET rondo_train_${kind})
    install(TARGETS rondo_train_${kind} EXPORT rondo-train-${kind})
    install(EXPORT rondo-train-${kind} NAMESPACE rondo:: DESTINATION ${package_dir})
  endif()
endforeach()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/rondo-config.cmake.in
                              ${PROJECT_BINARY_DIR}/rondo-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rondo-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rondo-config.cmake
              ${PROJECT_BINARY_DIR}/rondo-config-version.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindDnnl.cmake
        DESTINATION ${package_dir})

# The .pc files find their prefix relative to themselves, so that an installed tree can be moved.
file(RELATIVE_PATH RONDO_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(RONDO_PC_LIBS_PRIVATE "-pthread")
if(RONDO_HAVE_CUDA)
  string(PREPEND RONDO_PC_LIBS_PRIVATE "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt ")
endif()
foreach(library IN LISTS CMAKE_DL_LIBS)
  string(APPEND RONDO_PC_LIBS_PRIVATE " -l${library}")
endforeach()
set(pc_files rondo)
if(TARGET rondo_trainer)
  set(RONDO_PC_TRAIN_LIBS_PRIVATE "-pthread")
  if(Dnnl_FOUND)
    string(PREPEND RONDO_PC_TRAIN_LIBS_PRIVATE "-ldnnl ")
  endif()
  list(APPEND pc_files rondo-train)
endif()
foreach(name IN LISTS pc_files)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
