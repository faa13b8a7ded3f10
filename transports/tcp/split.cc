// Measures the speed of lines, and chooses one.
#include "transports/tcp/split.h"

#include <algorithm>
#include <tuple>

namespace rondo::transport::tcp {

void Pace::measured(std::size_t bytes, Seconds busy) {
  samples_[count_++ % samples_.size()] = {static_cast<double>(bytes), busy.count()};
}

double Pace::secondsPerByte() const {
  Sample sum;
  for (const Sample& sample : samples_) {
    sum.bytes += sample.bytes;
    sum.seconds += sample.seconds;
  }
  return count_ == 0 ? 0 : sum.seconds / sum.bytes;
}

double arrival(const LineLoad& line, std::size_t bytes) {
  double each = line.pace.secondsPerByte();
  if (line.oldest > 0)
    each = std::max(each, line.oldest_age.count() / static_cast<double>(line.oldest));
  return each * static_cast<double>(line.ahead + bytes);
}

std::optional<std::size_t> soonest(std::span<const LineLoad> lines, std::size_t bytes,
                                   std::size_t turn) {
  std::optional<std::size_t> best;
  std::tuple<double, bool, std::size_t> least{};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t at = (turn + i) % lines.size();
    if (!lines[at].usable) continue;
    const double idle = lines[at].ahead == 0 ? kIdleBonus : 1;
    const std::tuple now{arrival(lines[at], bytes) / idle, lines[at].full, lines[at].ahead};
    if (best && now >= least) continue;
    best = at;
    least = now;
  }
  return best;
}

} // namespace rondo::transport::tcp
