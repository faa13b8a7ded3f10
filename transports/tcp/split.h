// Chooses the line of a channel for the next part of a message: the one on which the part should
// arrive first, according to the lines' measured speed.
//
// This file has only values; striped_sender.cc measures, sends and repeats.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

#include "transports/tcp/ends.h"

namespace rondo::transport::tcp {

/// The number of parts of a body. An empty body has one, for its header.
inline std::size_t partsOf(std::size_t bytes) {
  return bytes == 0 ? 1 : (bytes + kPartBytes - 1) / kPartBytes;
}

/// The bytes of a body in its part `index`.
inline Range partOf(std::size_t bytes, std::size_t index) {
  return {std::min(bytes, index * kPartBytes), std::min(bytes, (index + 1) * kPartBytes)};
}

using Seconds = std::chrono::duration<double>;

/// The speed of a line, as a mean of the last measurements. Before the first one, the line counts
/// as infinitely fast.
class Pace {
 public:
  /// Records that `bytes` were acknowledged within `busy`.
  void measured(std::size_t bytes, Seconds busy);
  double secondsPerByte() const;

 private:
  struct Sample {
    double bytes = 0, seconds = 0;
  };
  std::array<Sample, 8> samples_{};
  std::size_t count_ = 0;
};

/// The current state of a line.
struct LineLoad {
  bool usable = false; ///< connected, and does not carry the part in question
  bool full = false;   ///< its socket has no room
  Pace pace;
  std::size_t ahead = 0;  ///< bytes that were assigned to it and are not acknowledged
  std::size_t oldest = 0; ///< of these, bytes of the oldest part
  Seconds oldest_age{0};  ///< how long the oldest part has been the first in the line
};

/// Seconds until a part of `bytes` would arrive on this line. If a part has been in flight for
/// longer than the line's pace predicts, the line is slower now.
double arrival(const LineLoad& line, std::size_t bytes);

/// The usable line on which `bytes` arrive first. An idle line is preferred, up to kIdleBonus.
/// Among equal lines, one with room is chosen, then the next one from `turn` on. Nothing if no line
/// is usable. The chosen line may be full: then waiting for it is better than using another one.
std::optional<std::size_t> soonest(std::span<const LineLoad> lines, std::size_t bytes,
                                   std::size_t turn);

} // namespace rondo::transport::tcp
