# Precompiles the C++ standard library's headers, once for all targets with the same options;
# parsing them is half of a file's compile time. Only system headers are precompiled, so a change in
# the project does not rebuild them. tools/check_includes checks that each file includes what it
# uses.

# GCC no longer knows which code of a precompiled header is the system's, and then reports faults
# there that do not exist.
set(precompiled_warnings -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)

# rondo_precompile(TARGET HEADERS...): HEADERS are further headers, for example Catch2's. Targets
# with the same options share what the first of them made; so that one may have no definitions of
# its own.
function(rondo_precompile target)
  # GCC reads a precompiled header only with the options that it was made with: they are the key.
  target_compile_options(${target} PRIVATE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:${precompiled_warnings}>
    # Without this option ccache could not use what was compiled in another checkout.
    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
  get_target_property(options ${target} COMPILE_OPTIONS)
  get_target_property(type ${target} TYPE)
  get_target_property(only_tests ${target} RONDO_ONLY_TESTS)
  get_target_property(unchecked ${target} RONDO_UNCHECKED)
  get_target_property(visibility ${target} CXX_VISIBILITY_PRESET)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  set(support "")
  if(libraries MATCHES rondo_test_support) # which has options of its own
    set(support rondo_test_support)
  endif()
  string(MAKE_C_IDENTIFIER
         "precompiled ${options} ${only_tests} ${unchecked} ${visibility} ${support} ${ARGN}" key)
  if(type STREQUAL "EXECUTABLE")
    string(PREPEND key "program_") # -fPIE, where libraries have -fPIC
  endif()
  get_property(known GLOBAL PROPERTY ${key})
  if(known)
    target_precompile_headers(${target} REUSE_FROM ${known})
    return()
  endif()
  # Clang only reads the parts that a file uses; GCC reads all, so less pays for it.
  set(more "")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set(more <charconv> <condition_variable> <deque> <filesystem> <future> <random> <unordered_map>
             <variant>)
  endif()
  target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic> <chrono> <cmath>
    <cstdint> <cstring> <fstream> <functional> <map> <memory> <mutex> <numeric>
    <optional> <set> <span> <sstream> <string> <thread> <utility> <vector> ${more} ${ARGN})
  set_property(GLOBAL PROPERTY ${key} ${target})
endfunction()
