// Which line of a channel carries the next part of a message: the one by which it arrives first, as
// far as the lines' measured speed tells.
//
// Values only: who measures, sends and repeats is striped_sender.cc.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

#include "transports/tcp/carrier.h"

namespace rondo::transport::tcp {

/// How many parts a body has; an empty one still has its header.
inline std::size_t partsOf(std::size_t bytes) {
  return bytes == 0 ? 1 : (bytes + kPartBytes - 1) / kPartBytes;
}

/// The bytes of a body that its part `index` carries.
inline Range partOf(std::size_t bytes, std::size_t index) {
  return {std::min(bytes, index * kPartBytes), std::min(bytes, (index + 1) * kPartBytes)};
}

using Seconds = std::chrono::duration<double>;

/// How fast a line has been: a mean of the last measurements. Nothing measured yet: it counts as
/// infinitely fast.
class Pace {
 public:
  /// After `bytes` were acknowledged within `busy`.
  void measured(std::size_t bytes, Seconds busy);
  double secondsPerByte() const;

 private:
  struct Sample {
    double bytes = 0, seconds = 0;
  };
  std::array<Sample, 8> samples_{};
  std::size_t count_ = 0;
};

/// A line as it is now.
struct LineLoad {
  bool usable = false; ///< connected, and does not carry the part in question already
  bool full = false;   ///< its socket has no room
  Pace pace;
  std::size_t ahead = 0;  ///< bytes that were handed over and are not acknowledged
  std::size_t oldest = 0; ///< of these, bytes of the part that was handed over first
  Seconds oldest_age{0};  ///< how long that has been under way, alone at the line's head
};

/// In how many seconds a part of `bytes` would arrive by this line. A part that has been under way
/// for longer than the line's pace says proves that the line is slower now.
double arrival(const LineLoad& line, std::size_t bytes);

/// The usable line by which `bytes` arrive first, where one that stands idle is preferred up to
/// kIdleBonus; of equal ones, one with room, then the next from `turn` on. Nothing if there is
/// none. The line may be full: then it is better to wait for it than to take another one.
std::optional<std::size_t> soonest(std::span<const LineLoad> lines, std::size_t bytes,
                                   std::size_t turn);

} // namespace rondo::transport::tcp
