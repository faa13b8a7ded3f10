# The command `rondo`, from the sources below tools/.
file(GLOB_RECURSE tool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/*.cc)
set(tool_mains ${tool_sources})
list(FILTER tool_mains INCLUDE REGEX "/main\\.cc$")
list(FILTER tool_sources EXCLUDE REGEX "/main\\.cc$")
if(NOT TARGET rondo_trainer)
  list(FILTER tool_sources EXCLUDE REGEX "/train[^/]*\\.cc$")
endif()
# All of the command but main(), so that tests can link it.
add_library(rondo_tools STATIC ${tool_sources})
# CLI11's header costs ten seconds in each file that includes it: those are compiled as one.
set_target_properties(rondo_tools PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
foreach(source IN LISTS tool_sources)
  file(STRINGS ${source} includes REGEX "#include (<CLI/|\"tools/cli_values)")
  if(includes)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP command_line)
  endif()
endforeach()
target_link_libraries(rondo_tools PUBLIC ${rondo_layers} CLI11::CLI11
                      nlohmann_json::nlohmann_json PRIVATE rondo_flags)
target_include_directories(rondo_tools PUBLIC ${PROJECT_SOURCE_DIR})
  if(RONDO_SANITIZE)
    rondo_compiled(rondo_tools OFF <rondo/rondo.h>)
  endif()
target_compile_definitions(rondo_tools PUBLIC RONDO_VERSION="${PROJECT_VERSION}"
                           PRIVATE RONDO_CUDA_MISSING="${RONDO_CUDA_MISSING}"
                                   RONDO_HAVE_TRAINER=$<TARGET_EXISTS:rondo_trainer>)

add_executable(rondo_cli ${tool_mains})
target_link_libraries(rondo_cli PRIVATE rondo_tools rondo_flags)
set_target_properties(rondo_cli PROPERTIES OUTPUT_NAME rondo)
foreach(module rondo_bootstrap_mpi rondo_hwloc)
  if(TARGET ${module})
    add_dependencies(rondo_cli ${module})
  endif()
endforeach()
