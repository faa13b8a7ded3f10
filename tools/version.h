// The version that the command prints.
#pragma once

namespace rondo::tools {

inline constexpr const char* kVersion = RONDO_VERSION; // set by CMakeLists.txt

} // namespace rondo::tools
