# Builds the Python package `rondo` (src/compat/python) into python/ of the build folder, with
# nanobind from the Python that is found (name one in Python_EXECUTABLE).
#
# nanobind has two ways. Linked: the module contains nanobind. It is for one version of Python, or
# for the stable ABI of Python 3.12 and newer. Split (RONDO_PYTHON_SPLIT): one module serves all
# versions from 3.11 on, whose stable ABI is the first with the buffer protocol, and nanobind is a
# package that is loaded at run time (nanobind-backend).
if(NOT RONDO_PYTHON)
  return()
endif()
option(RONDO_PYTHON_SPLIT "Load nanobind at run time, so that one module serves Python 3.11+" OFF)

find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module
             OPTIONAL_COMPONENTS Development.SABIModule)
if(NOT nanobind_DIR)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
                  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_package(nanobind CONFIG REQUIRED)

set(python_source ${PROJECT_SOURCE_DIR}/src/compat/python)
set(python_output ${PROJECT_BINARY_DIR}/python/rondo)
file(GLOB sources CONFIGURE_DEPENDS ${python_source}/*.cc)
set(way STABLE_ABI)
if(RONDO_PYTHON_SPLIT)
  set(way BACKEND_MODULE nanobind_backend STABLE_ABI_VERSION 3.11)
endif()
# In one domain, nanobind takes classes of the same name for the same class. Each version has a
# domain of its own, so that a program can import two versions.
string(REPLACE . _ domain "rondo_${PROJECT_VERSION}")
nanobind_add_module(rondo_python ${way} NB_SUPPRESS_WARNINGS NB_DOMAIN ${domain} ${sources})
target_include_directories(rondo_python PRIVATE ${PROJECT_SOURCE_DIR}/include
                                                ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(rondo_python PRIVATE rondo_shared rondo_model rondo_planner rondo_flags)
# plan(), predict() and simulate() use layers that the library does not export.
target_link_options(rondo_python PRIVATE LINKER:--exclude-libs,ALL)
set_target_properties(rondo_python PROPERTIES
  OUTPUT_NAME _rondo LIBRARY_OUTPUT_DIRECTORY ${python_output}
  BUILD_RPATH "$ORIGIN/../../lib"
  INSTALL_RPATH "$ORIGIN/lib;$ORIGIN/../../../../${CMAKE_INSTALL_LIBDIR}")

file(GLOB python_files CONFIGURE_DEPENDS ${python_source}/rondo/*.py)
set(copies "")
foreach(file IN LISTS python_files)
  get_filename_component(name ${file} NAME)
  add_custom_command(OUTPUT ${python_output}/${name} DEPENDS ${file}
                     COMMAND ${CMAKE_COMMAND} -E copy ${file} ${python_output}/${name})
  list(APPEND copies ${python_output}/${name})
endforeach()
add_custom_target(rondo_python_files ALL DEPENDS ${copies})
add_dependencies(rondo_python rondo_python_files)
nanobind_add_stub(rondo_python_stub MODULE rondo._rondo OUTPUT ${python_output}/_rondo.pyi
                  PYTHON_PATH ${PROJECT_BINARY_DIR}/python DEPENDS rondo_python ${copies}
                  MARKER_FILE ${python_output}/py.typed)

if(RONDO_INSTALL)
  set(python_dir lib/python3/dist-packages/rondo) # Debian's, and the place in a wheel
  if(SKBUILD)
    set(python_dir .)
  else()
    install(FILES ${python_files} DESTINATION ${python_dir} COMPONENT python)
  endif()
  install(TARGETS rondo_python LIBRARY DESTINATION ${python_dir} COMPONENT python)
  install(FILES ${python_output}/_rondo.pyi ${python_output}/py.typed DESTINATION ${python_dir}
          COMPONENT python)
endif()
