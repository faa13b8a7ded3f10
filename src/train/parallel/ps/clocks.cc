#include "train/parallel/ps/clocks.h"

#include <charconv>

#include "rondo/error.h"

namespace rondo::training::servers {

Staleness::Staleness(const std::string& text) {
  static const std::string kBounded = "ssp:";
  if (text == "bsp") return;
  if (text == "asp") {
    bound_ = kUnbounded;
    return;
  }
  if (text.starts_with(kBounded)) {
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + kBounded.size(), end, bound_);
    if (error == std::errc() && at == end && bound_ >= 0 && bound_ != kUnbounded) return;
  }
  throw Error(ErrorCode::invalid_argument,
              "train: unknown consistency \"" + text + "\"; valid: bsp, ssp:STALENESS, asp");
}

} // namespace rondo::training::servers
