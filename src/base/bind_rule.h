// BindRule: a parsed value of RONDO_BIND.
#pragma once

#include <string_view>
#include <vector>

namespace rondo::base {

struct BindRule {
  enum class To { none, core, socket, list };
  To to = To::none;
  std::vector<int> list = {}; ///< with To::list: the processors, in the order of the ranks

  bool operator==(const BindRule&) const = default;
};

/// Parses "none" or "", "core", "socket", or a list of processors such as "0,2,8-11". Throws
/// Error(invalid_argument) whose text begins with `what` and lists the valid values.
BindRule parseBind(std::string_view text, std::string_view what);

} // namespace rondo::base
