// What RONDO_BIND says.
#pragma once

#include <string_view>
#include <vector>

namespace rondo::base {

struct BindRule {
  enum class To { none, core, socket, list };
  To to = To::none;
  std::vector<int> list = {}; ///< of To::list: processors, in the order of ranks

  bool operator==(const BindRule&) const = default;
};

/// "none" or nothing, "core", "socket", or processors as in "0,2,8-11". Throws
/// Error(invalid_argument) that begins with `what` and lists what is valid.
BindRule parseBind(std::string_view text, std::string_view what);

} // namespace rondo::base
