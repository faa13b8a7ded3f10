// Turns smoothed times into curves: each pair of neighbouring sizes gives the cost of a byte.
#include "tools/tune_fit.h"

#include <algorithm>
#include <cmath>

#include "rondo/error.h"

namespace rondo::tools {

namespace {

/// No byte is cheaper: a curve needs a speed, and 10 TB/s is beyond what is measured here.
constexpr double kLeastPerByte = 1e-13;

} // namespace

std::vector<double> neverFalling(std::vector<double> values) {
  struct Pool {
    double sum = 0;
    std::size_t size = 0;

    double mean() const { return sum / static_cast<double>(size); }
  };
  std::vector<Pool> pools;
  for (const double value : values) {
    pools.push_back({value, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().size += last.size;
    }
  }
  std::size_t at = 0;
  for (const Pool& pool : pools)
    for (std::size_t i = 0; i < pool.size; ++i) values[at++] = pool.mean();
  return values;
}

model::LinkProfile fitLink(const std::vector<LinkSample>& samples, const model::LinkProfile& like) {
  if (samples.size() < 2)
    throw Error(ErrorCode::invalid_argument, "a link needs samples of two sizes or more");
  std::vector<double> trips;
  for (const LinkSample& sample : samples) {
    if (!(sample.half_trip > 0) || !(sample.stream > 0))
      throw Error(ErrorCode::invalid_argument, "a measured time is not above 0");
    trips.push_back(sample.half_trip);
  }
  trips = neverFalling(trips);
  std::vector<model::Curve::Piece> pieces;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const double more = samples[i].bytes - samples[i - 1].bytes;
    // Half of it at each end. The first piece begins at 0, where a message has no bytes.
    pieces.push_back({i == 1 ? 0 : samples[i - 1].bytes,
                      std::max((trips[i] - trips[i - 1]) / more / 2, kLeastPerByte)});
  }
  model::LinkProfile link = like;
  link.send = link.receive = model::Curve(pieces);
  const double whole = std::max(trips[0] - 2 * link.send(samples[0].bytes), 0.0);
  const double overhead = std::min(samples[0].stream, whole / 2);
  link.send_overhead = link.receive_overhead = overhead;
  link.alpha = whole - 2 * overhead;
  link.wire = {};
  link.nic = model::Nic::none;
  return link;
}

model::Levels fitLevels(const std::vector<LevelSample>& samples) {
  std::vector<double> costs;
  for (const LevelSample& sample : samples)
    costs.push_back(std::max(sample.seconds_per_byte, kLeastPerByte));
  costs = neverFalling(costs);
  std::vector<model::Levels::Point> points;
  for (std::size_t i = 0; i < samples.size(); ++i)
    points.push_back({samples[i].working_set, costs[i]});
  return model::Levels(points);
}

double halfTrip(const model::LinkProfile& link, double bytes) {
  return link.send_overhead + link.send(bytes) + link.alpha + link.wire(bytes) +
         link.receive_overhead + link.receive(bytes);
}

model::Residual residualOf(const std::string& what,
                           const std::vector<std::pair<double, double>>& pairs) {
  std::vector<double> errors;
  for (const auto& [predicted, measured] : pairs)
    errors.push_back(std::abs(predicted / measured - 1));
  if (errors.empty()) return {.what = what};
  std::sort(errors.begin(), errors.end());
  return {.what = what, .median = errors[errors.size() / 2], .worst = errors.back()};
}

} // namespace rondo::tools
