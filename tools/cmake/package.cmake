# What CPack makes of an installed tree: one archive, and Debian packages. tools/package runs it.
set(CPACK_PACKAGE_NAME rondo)
set(CPACK_PACKAGE_CONTACT "The authors of Rondo <rondo@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)

# rondo_package(GROUP NAME SUMMARY COMPONENTS...): a Debian package of these components. All
# its dependencies, also on our packages, are in RONDO_DEPENDS_<GROUP>: dpkg-shlibdeps would add
# those of the modules, which are loaded only where their libraries exist.
macro(rondo_package group name summary)
  string(TOUPPER ${group} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_COMPONENT_GROUP_${upper}_DESCRIPTION ${summary})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION ${summary})
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS ${RONDO_DEPENDS_${upper}})
  foreach(component ${ARGN})
    string(TOUPPER ${component} component)
    set(CPACK_COMPONENT_${component}_GROUP ${group})
  endforeach()
endmacro()
# Like the library's name, it has the version of the interface, so that an update does not replace a
# library that programs need. Two versions cannot be installed at once: both have the modules.
rondo_package(runtime librondo${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
              "collective communication: library, MPI interposers, NCCL" library)
rondo_package(development librondo-dev "collective communication: headers, CMake package, archives"
              headers static links)
rondo_package(command rondo-tools "collective communication: the command rondo, its trainer"
              tools onednn)
rondo_package(module python3-rondo "collective communication: Python interface" python)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "libucx0, libhwloc15, libopenmpi3")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_PROVIDES librondo-modules)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONFLICTS librondo-modules)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION net)
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS dataset-fashion-mnist) # what `rondo train` reads
set(CPACK_DEBIAN_MODULE_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_COMPONENTS_ALL library headers static links tools)
if(TARGET rondo_train_onednn)
  list(APPEND CPACK_COMPONENTS_ALL onednn)
endif()
if(TARGET rondo_python)
  list(APPEND CPACK_COMPONENTS_ALL python)
endif()
include(CPack)
