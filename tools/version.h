// The version that the command tells.
#pragma once

namespace rondo::tools {

inline constexpr const char* kVersion = RONDO_VERSION; // the build's, see CMakeLists.txt

} // namespace rondo::tools
