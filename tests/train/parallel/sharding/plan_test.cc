// Tests plans of sharded steps: parameters are present when they are used, and no more is sent than
// necessary.
#include "train/parallel/sharding/plan.h"

#include <map>

#include "support/test.h"
#include "train/parallel/sharding/traffic.h"

namespace rondo::test {

using training::LayerSizes;
using training::Mesh;
using training::ShardLayout;
using training::shardLayout;
using training::ShardLevel;
using training::ShardMove;
using training::shardMoves;
using training::ShardSlots;
using training::ShardTask;

namespace {

/// Follows the moves of a step with sharded parameters. Returns a text about the first error.
class Follower {
 public:
  explicit Follower(std::size_t units) : gathered_(ShardSlots::kOfParameters, units) {}

  std::string follow(const ShardMove& move) {
    const std::size_t slot = ShardSlots::parameters(move.unit);
    switch (move.task) {
      case ShardTask::gather:
        if (updated_) return "parameters are sent after the update";
        if (working_ && slot == ShardSlots::parameters(at_) && move.unit != at_)
          return "a gather overwrites the unit at work";
        gathered_[slot] = move.unit;
        return "";
      case ShardTask::forward:
      case ShardTask::backward:
        if (gathered_[slot] != move.unit) return "a unit works without its parameters";
        at_ = move.unit;
        working_ = true;
        if (move.task == ShardTask::backward)
          gathered_[ShardSlots::gradients(move.unit, ShardLevel::parameters)] = kGradients;
        return "";
      case ShardTask::reduce:
        if (move.unit != at_) return "gradients are sent before they are there";
        // The unit's parameters are no longer used.
        working_ = false;
        return "";
      default: updated_ = updated_ || move.task == ShardTask::update; return "";
    }
  }

 private:
  static constexpr std::size_t kGradients = 1000;
  std::vector<std::size_t> gathered_; ///< contents of each slot
  std::size_t at_ = 0;
  bool working_ = false, updated_ = false;
};

} // namespace

TEST_CASE("each unit runs once forward and once backward, with its parameters in their slot") {
  for (std::size_t units = 1; units <= 9; ++units) {
    const ShardLayout layout = shardLayout(LayerSizes(units, {32}), 2, std::vector<std::size_t>{0});
    for (ShardLevel level : {ShardLevel::optimizer, ShardLevel::gradients, ShardLevel::parameters})
      for (bool groups : {false, true}) {
        INFO(units << " units, level " << static_cast<int>(level) << ", groups " << groups);
        const std::vector<ShardMove> moves = shardMoves(layout, level, groups);
        std::map<ShardTask, std::vector<std::size_t>> of;
        Follower follower(units);
        for (const ShardMove& move : moves) {
          of[move.task].push_back(move.unit);
          if (level == ShardLevel::parameters) REQUIRE(follower.follow(move) == "");
        }
        std::vector<std::size_t> there(units);
        for (std::size_t u = 0; u < units; ++u) there[u] = u;
        const std::vector<std::size_t> back(there.rbegin(), there.rend());
        REQUIRE(of[ShardTask::forward] == there);
        REQUIRE(of[ShardTask::backward] == back);
        REQUIRE(of[ShardTask::reduce] == back);
        REQUIRE(of[ShardTask::replicate] == (groups ? back : std::vector<std::size_t>()));
        REQUIRE(of[ShardTask::update].size() == 1);
        REQUIRE(32.0 * static_cast<double>(of[ShardTask::gather].size()) ==
                gatheredElements(layout, {.level = level}));
      }
  }
}

TEST_CASE("the text of a plan contains groups, units, moves and bytes") {
  const ShardLayout layout = shardLayout({{}, {32}, {16}}, 2, std::vector<std::size_t>{0});
  CHECK(shardPlanText(layout, ShardLevel::parameters, Mesh::parse("data=2,shard=2", 4), 1) ==
        "mesh data=2,shard=2: ranks 0 1; ranks 2 3 (each group holds one model)\n"
        "unit 0: layers 0 to 1, 128 bytes, of which rank 0 holds 64\n"
        "unit 1: layers 2 to 2, 64 bytes, of which rank 0 holds 0\n"
        "a step of each rank (lines further left start collectives that overlap with the next "
        "lines):\n"
        "  Allgather      unit 0, 128 bytes\n"
        "  Allgather      unit 1, 64 bytes\n"
        "    forward      unit 0\n"
        "    forward      unit 1\n"
        "    backward     unit 1\n"
        "  ReduceScatter  unit 1, 64 bytes\n"
        "  AllReduce      unit 1, 32 bytes between groups\n"
        "    backward     unit 0\n"
        "  ReduceScatter  unit 0, 128 bytes\n"
        "  AllReduce      unit 0, 64 bytes between groups\n"
        "    update       own shards\n"
        // Two groups: all parameters gathered once, gradients reduced once; twice between groups.
        "all ranks together send 1152 bytes in a step\n"
        // Slots: unit 0's parameters; its gradients and unit 1's parameters; unit 1's gradients.
        "rank 0 holds 512 bytes at most: parameters 64, gradients 64, optimizer 64, whole units "
        "320\n");
}

} // namespace rondo::test
