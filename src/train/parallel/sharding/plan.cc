#include "train/parallel/sharding/plan.h"

#include <array>

#include "train/parallel/plan_text.h"
#include "train/parallel/sharding/traffic.h"

namespace rondo::training {

namespace {

/// Records the moves of a step, and tracks which unit's parameters are in which slot.
class Writer {
 public:
  Writer(std::size_t units, ShardLevel level, bool groups)
      : units_(units), shared_(level == ShardLevel::parameters), groups_(groups) {
    holds_.fill(units);
  }

  void gather(std::size_t unit) {
    if (!shared_ || unit >= units_ || holds_[ShardSlots::parameters(unit)] == unit) return;
    holds_[ShardSlots::parameters(unit)] = unit;
    add(ShardTask::gather, unit);
  }
  void forward(std::size_t unit) {
    gather(unit);
    gather(unit + 1);
    add(ShardTask::forward, unit);
  }
  void backward(std::size_t unit) {
    if (shared_) holds_[ShardSlots::gradients(unit, ShardLevel::parameters)] = units_;
    gather(unit);
    gather(unit - 1); // wraps around below unit 0: then this does nothing
    add(ShardTask::backward, unit);
    add(ShardTask::reduce, unit);
    if (groups_) add(ShardTask::replicate, unit);
  }
  void update() {
    add(ShardTask::update, 0);
    for (std::size_t unit = 0; unit < units_ && !shared_; ++unit) add(ShardTask::gather, unit);
  }
  std::vector<ShardMove> moves;

 private:
  void add(ShardTask task, std::size_t unit) { moves.push_back({task, unit}); }

  const std::size_t units_;
  const bool shared_, groups_;
  std::array<std::size_t, ShardSlots::kOfParameters> holds_;
};

std::string text(const ShardMove& move, const ShardLayout& layout, std::size_t shards,
                 bool narrow) {
  const ShardUnit& unit = layout.units[move.unit];
  const std::size_t wide = unit.count * sizeof(float), bytes = narrow ? wide / 2 : wide;
  switch (move.task) {
    case ShardTask::gather:
      return formatted("  Allgather      unit %zu, %zu bytes", move.unit, bytes);
    case ShardTask::forward: return formatted("    forward      unit %zu", move.unit);
    case ShardTask::backward: return formatted("    backward     unit %zu", move.unit);
    case ShardTask::reduce:
      return formatted("  ReduceScatter  unit %zu, %zu bytes", move.unit, bytes);
    case ShardTask::replicate:
      return formatted("  AllReduce      unit %zu, %zu bytes between groups", move.unit,
                       wide / shards);
    case ShardTask::update: return "    update       own shards";
  }
  return {};
}

} // namespace

std::vector<ShardMove> shardMoves(const ShardLayout& layout, ShardLevel level, bool groups) {
  const std::size_t units = layout.units.size();
  Writer writer(units, level, groups);
  for (std::size_t u = 0; u < units; ++u) writer.forward(u);
  for (std::size_t u = units; u-- > 0;) writer.backward(u);
  writer.update();
  return writer.moves;
}

std::string shardPlanText(const ShardLayout& layout, ShardLevel level, const Mesh& mesh,
                          std::size_t arrays, bool narrow) {
  const int shards = mesh.size(Axis::shard), groups = mesh.size(Axis::data);
  std::string all = meshText(mesh, Axis::shard);
  all += groups > 1 ? " (each group holds one model)\n" : " (together they hold the model)\n";
  for (std::size_t u = 0; u < layout.units.size(); ++u) {
    const ShardUnit& unit = layout.units[u];
    all += formatted("unit %zu: layers %zu to %zu, %zu bytes, of which rank 0 holds %zu\n", u,
                     unit.layers.begin, unit.layers.end - (unit.layers.end > 0 ? 1 : 0),
                     unit.count * sizeof(float), unit.counts[0] * sizeof(float));
  }
  all +=
      "a step of each rank (lines further left start collectives that overlap with the next "
      "lines):\n";
  for (const ShardMove& move : shardMoves(layout, level, groups > 1))
    all += text(move, layout, static_cast<std::size_t>(shards), narrow) + "\n";
  all += formatted(
      "all ranks together send %.0f bytes in a step\n",
      shardTraffic(layout, {.level = level, .groups = groups, .shards = shards, .narrow = narrow}));
  const ModelMemory held =
      predictedMemory(layout, {.level = level, .arrays = arrays, .narrow = narrow});
  return all + formatted(
                   "rank 0 holds %zu bytes at most: parameters %zu, gradients %zu, optimizer "
                   "%zu, whole units %zu\n",
                   held.total(), held.parameters, held.gradients, held.optimizer, held.slots);
}

} // namespace rondo::training
