// Statistics and results of the benchmark.
#include "tools/bench/result.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rondo::tools {

std::optional<double> TableResult::averageBusBandwidth() const {
  double sum = 0;
  std::size_t measured = 0;
  for (const Row& row : rows) {
    for (const auto* timing : {&row.out_of_place, &row.in_place}) {
      if (!*timing || !(*timing)->bus_bw) continue;
      sum += *(*timing)->bus_bw;
      ++measured;
    }
  }
  if (measured == 0) return std::nullopt;
  return sum / static_cast<double>(measured);
}

std::size_t TableResult::wrong() const {
  std::size_t sum = 0;
  for (const Row& row : rows) {
    for (const auto* timing : {&row.out_of_place, &row.in_place}) {
      if (*timing) sum += (*timing)->wrong.value_or(0);
    }
  }
  return sum;
}

Times summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto percentile = [&](double percent) {
    const double place = std::ceil(percent / 100 * static_cast<double>(samples.size()));
    return samples[static_cast<std::size_t>(std::max(place, 1.0)) - 1];
  };
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {sum / static_cast<double>(samples.size()),
          samples.front(),
          percentile(50),
          percentile(95),
          percentile(99),
          samples.back()};
}

} // namespace rondo::tools
