// Chooses the faster of two ways to do the same work, by the times that both have taken.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace rondo::engine {

/// Which of two ways is faster may change while a job runs: a virtual machine moves, or the system
/// moves a rank to a core that shares no cache with its peer. Therefore the slower way is tried now
/// and then. Both ways must have the same result.
class FasterWay {
 public:
  /// One work in so many is done in the way that was slower. Where one way takes twice as long as
  /// the other, this costs 1.6% of the time.
  static constexpr std::uint32_t kTryEvery = 64;

  /// Chooses the way of the next work.
  void choose() {
    if (ticks_[0] <= 0 || ticks_[1] <= 0) {
      first_ = ticks_[0] <= 0;
      return;
    }
    first_ = ticks_[0] <= ticks_[1];
    if (++works_ % kTryEvery == 0) first_ = !first_;
  }

  /// The way that was chosen: true for the first way, false for the second.
  bool isFirst() const { return first_; }

  /// The work took so long in the way that was chosen. Counts at most twice the mean, because the
  /// system may have interrupted the work.
  void took(std::uint64_t ticks) {
    float& mean = ticks_[first_ ? 0 : 1];
    const auto now = static_cast<float>(std::max<std::uint64_t>(ticks, 1));
    mean = mean > 0 ? mean + (std::min(now, 2 * mean) - mean) / 8 : now;
  }

 private:
  std::array<float, 2> ticks_{}; ///< a moving mean for each way; 0: not measured yet
  std::uint32_t works_ = 0;
  bool first_ = true;
};

} // namespace rondo::engine
