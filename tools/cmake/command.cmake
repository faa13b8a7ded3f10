# Builds the command `rondo` from the sources below tools/.
file(GLOB_RECURSE tool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/*.cc)
set(tool_mains ${tool_sources})
list(FILTER tool_mains INCLUDE REGEX "/main\\.cc$")
list(FILTER tool_sources EXCLUDE REGEX "/main\\.cc$")
if(NOT TARGET rondo_trainer)
  list(FILTER tool_sources EXCLUDE REGEX "/(simulate_)?train[^/]*\\.cc$")
endif()
# CLI11's inline code takes ten seconds to compile in each file that includes it, so these files are
# compiled together.
set(command_line "")
foreach(source IN LISTS tool_sources)
  file(STRINGS ${source} includes REGEX "#include (<CLI/|\"tools/cli_values)")
  if(includes)
    list(APPEND command_line ${source})
  endif()
endforeach()
list(REMOVE_ITEM tool_sources ${command_line})
add_library(rondo_command_line OBJECT ${command_line})
set_target_properties(rondo_command_line PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)

# Everything but main(), so that tests can link it.
add_library(rondo_tools STATIC ${tool_sources} $<TARGET_OBJECTS:rondo_command_line>)
foreach(target rondo_command_line rondo_tools)
  target_link_libraries(${target} PUBLIC ${rondo_layers} CLI11::CLI11
                        nlohmann_json::nlohmann_json PRIVATE rondo_flags)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${target} PUBLIC RONDO_VERSION="${PROJECT_VERSION}"
                             PRIVATE RONDO_CUDA_MISSING="${RONDO_CUDA_MISSING}"
                                     RONDO_HAVE_TRAINER=$<TARGET_EXISTS:rondo_trainer>)
  if(RONDO_HAVE_CUDA) # gpu.cc
    target_link_libraries(${target} PRIVATE CUDA::cudart_static)
    target_compile_definitions(${target} PRIVATE RONDO_HAVE_CUDA=1)
  endif()
  # Full optimisation would make this code, which runs once, compile for a third longer.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(RONDO_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
  if(RONDO_SANITIZE MATCHES "address")
    set_target_properties(${target} PROPERTIES RONDO_UNCHECKED alignment)
  endif()
endforeach()
if(NOT RONDO_SANITIZE)
  # Only these files time calls or have loops over a benchmark's elements.
  list(FILTER tool_sources INCLUDE REGEX "/bench/(call|data|measure|values)\\.cc$")
  set_source_files_properties(${tool_sources} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>
                              SKIP_PRECOMPILE_HEADERS ON)
endif()
rondo_precompile(rondo_tools)

add_executable(rondo_cli ${tool_mains})
target_link_libraries(rondo_cli PRIVATE rondo_tools rondo_flags)
set_target_properties(rondo_cli PROPERTIES OUTPUT_NAME rondo)
foreach(module rondo_bootstrap_mpi rondo_cuda rondo_hwloc rondo_tls rondo_ucx rondo_train_cudnn)
  if(TARGET ${module})
    add_dependencies(rondo_cli ${module})
  endif()
endforeach()
