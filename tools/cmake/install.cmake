# Installs headers, libraries, modules, the command, a CMake package and pkg-config files.
#
# Components, which package.cmake puts into packages: library, tools, onednn, python; headers (with
# the CMake package), static (archives), links (names for the linker, pkg-config files). The
# component cuda, the GPU kernels, is in no package.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)

if(NOT TARGET rondo_trainer)
  set(absent PATTERN train.h EXCLUDE)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/rondo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT headers FILES_MATCHING PATTERN "*.h" PATTERN "*.def" ${absent})
if(TARGET rondo_train_onednn)
  install(TARGETS rondo_train_onednn LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT onednn)
endif()
if(TARGET rondo_cuda)
  install(TARGETS rondo_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda)
endif()
foreach(module rondo_bootstrap_mpi rondo_ucx rondo_train_cudnn rondo_hwloc rondo_tls)
  if(TARGET ${module})
    install(TARGETS ${module} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
  endif()
endforeach()
if(TARGET rondo_cli)
  install(TARGETS rondo_cli COMPONENT tools)
endif()

foreach(library rondo rondo_train)
  if(NOT TARGET ${library}_shared)
    continue()
  endif()
  if(SKBUILD) # a wheel has no symbolic links, so the file has the name that programs load
    get_target_property(loaded ${library}_shared SOVERSION)
    set_target_properties(${library}_shared PROPERTIES VERSION ${loaded})
  endif()
  string(REPLACE _ - name ${library})
  set(component library)
  if(library STREQUAL rondo_train)
    set(component tools)
  endif()
  install(TARGETS ${library}_shared EXPORT ${name}-shared
          LIBRARY COMPONENT ${component} NAMELINK_COMPONENT links)
  install(TARGETS ${library}_static EXPORT ${name}-static ARCHIVE COMPONENT static)
  install(EXPORT ${name}-shared NAMESPACE rondo:: DESTINATION ${package_dir} COMPONENT headers)
  install(EXPORT ${name}-static NAMESPACE rondo:: DESTINATION ${package_dir} COMPONENT static)
endforeach()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/rondo-config.cmake.in
                              ${PROJECT_BINARY_DIR}/rondo-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rondo-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rondo-config.cmake
              ${PROJECT_BINARY_DIR}/rondo-config-version.cmake
        DESTINATION ${package_dir} COMPONENT headers)

# The .pc files find their prefix relative to themselves, so that an installed tree can be moved.
file(RELATIVE_PATH RONDO_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(RONDO_PC_LIBS_PRIVATE "-pthread")
foreach(library IN LISTS CMAKE_DL_LIBS)
  string(APPEND RONDO_PC_LIBS_PRIVATE " -l${library}")
endforeach()
set(pc_files rondo)
if(TARGET rondo_trainer)
  list(APPEND pc_files rondo-train)
endif()
foreach(name IN LISTS pc_files)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT links)
endforeach()
