#include "train/parallel/sharding/traffic.h"

namespace rondo::training {

double gatheredElements(const ShardLayout& layout, const TrafficQuestion& question) {
  const auto all = static_cast<double>(layout.count);
  if (question.level != ShardLevel::parameters) return all;
  const std::size_t units = layout.units.size();
  const auto first = static_cast<double>(layout.units.front().count);
  double last = 0;
  for (std::size_t u = units > 2 ? units - 2 : 0; u < units; ++u)
    last += static_cast<double>(layout.units[u].count);
  return question.micro_batches * (2 * all - last) - (question.micro_batches - 1) * first;
}

double shardTraffic(const ShardLayout& layout, const TrafficQuestion& question) {
  const auto all = static_cast<double>(layout.count);
  const double in_group = question.micro_batches * all + gatheredElements(layout, question);
  constexpr double kWide = sizeof(float);
  return (question.narrow ? kWide / 2 : kWide) * question.groups * (question.shards - 1) *
             in_group +
         kWide * 2 * (question.groups - 1) * all;
}

} // namespace rondo::training
