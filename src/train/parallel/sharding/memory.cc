#include "train/parallel/sharding/memory.h"

#include <algorithm>
#include <numeric>

#include "rondo/error.h"

namespace rondo::training {

std::vector<std::size_t> unitBytes(const TrainOptions& options, ShardLevel level) {
  if (level == ShardLevel::parameters) return {options.sharding.unit_bytes};
  return options.gradients.bucket_bytes;
}

std::vector<std::size_t> ShardSlots::sizes(const ShardLayout& layout, ShardLevel level) {
  if (level == ShardLevel::optimizer) return {};
  std::vector<std::size_t> sizes(level == ShardLevel::parameters ? kOfParameters : kOfGradients);
  for (std::size_t u = 0; u < layout.units.size(); ++u) {
    const auto needs = [&](std::size_t slot) {
      sizes[slot] = std::max(sizes[slot], layout.units[u].count);
    };
    needs(gradients(u, level));
    if (level == ShardLevel::parameters) needs(parameters(u));
  }
  return sizes;
}

ModelMemory predictedMemory(const ShardLayout& layout, const MemoryQuestion& question) {
  const std::vector<std::size_t> slots = ShardSlots::sizes(layout, question.level);
  const std::size_t own = layout.ownCount(question.rank), all = layout.count;
  ModelMemory memory;
  memory.parameters =
      (question.level == ShardLevel::parameters ? own : all) + (question.narrow ? own / 2 : 0);
  memory.gradients =
      (question.level == ShardLevel::optimizer ? all : own) + (question.accumulates ? own : 0);
  memory.optimizer = question.arrays * layout.ownElements(question.rank);
  memory.slots = std::accumulate(slots.begin(), slots.end(), std::size_t{0});
  for (std::size_t* part :
       {&memory.parameters, &memory.gradients, &memory.optimizer, &memory.slots})
    *part *= sizeof(float);
  return memory;
}

ModelMemory wholeMemory(const ShardLayout& layout, std::size_t arrays, bool accumulates) {
  const std::size_t bytes = layout.count * sizeof(float);
  const std::size_t kept = layout.ownElements(0) * sizeof(float);
  return {.parameters = bytes,
          .gradients = bytes + (accumulates ? kept : 0),
          .optimizer = arrays * kept,
          .slots = 0};
}

void requireFits(const std::string& strategy, const ModelMemory& need, std::uint64_t limit_bytes) {
  if (limit_bytes == 0 || need.total() <= limit_bytes) return;
  const auto bytes = [](std::size_t value) { return std::to_string(value); };
  throw Error(ErrorCode::invalid_argument,
              "train: memory_limit is " + std::to_string(limit_bytes) + " bytes, but strategy " +
                  strategy + " needs " + bytes(need.total()) + " on a rank: " +
                  bytes(need.parameters) + " for parameters, " + bytes(need.gradients) +
                  " for gradients, " + bytes(need.optimizer) + " for the optimizer" +
                  (need.slots > 0 ? ", " + bytes(need.slots) + " for whole units" : ""));
}

} // namespace rondo::training
