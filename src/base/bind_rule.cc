// Parses values of RONDO_BIND.
#include "base/bind_rule.h"

#include <string>

#include "base/parse.h"
#include "rondo/error.h"

namespace rondo::base {

namespace {

constexpr int kHighestProcessor = (1 << 16) - 1;

} // namespace

BindRule parseBind(std::string_view text, std::string_view what) {
  if (text.empty() || text == "none") return {};
  if (text == "core") return {BindRule::To::core};
  if (text == "socket") return {BindRule::To::socket};
  try {
    return {BindRule::To::list, parseNumbers(text, what, kHighestProcessor)};
  } catch (const Error& error) {
    throw Error(
        ErrorCode::invalid_argument,
        std::string(error.what()) + "; valid: none, core, socket, or processors as in 0,2,8-11");
  }
}

} // namespace rondo::base
