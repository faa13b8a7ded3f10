// Tests the tiles of every plan: they fit, both ends agree, and together they cover the call.
#include "plan/tiles.h"

#include <map>
#include <string>
#include <vector>

#include "plan/check.h"
#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

constexpr std::size_t kElement = sizeof(std::int32_t);

/// The tile's cut of a step, or null if the step has no part in it.
const TiledStep* partOf(const Tiling& tiling, std::size_t lane, std::size_t step,
                        std::size_t tile) {
  const TiledStep& last = tiling.last[lane][step];
  if (tile + 1 == last.tiles) return &last;
  return tile < last.tiles ? &tiling.full[lane][step] : nullptr;
}

class Walk {
 public:
  Walk(const std::vector<RankPlan>& plans, std::size_t count, std::size_t limit)
      : plans_(plans), shape_{count, DataType::int32}, limit_(limit) {}

  std::string wrong() {
    for (const RankPlan& plan : plans_) {
      const std::size_t tile = tileElements(plan, shape_, limit_);
      if (&plan != &plans_[0] && tile != tile_) return "ranks cut different tiles";
      tile_ = tile;
      visit(plan, cut(plan, shape_, tile));
    }
    if (wrong_.empty() && sent_ != received_) return "messages differ at their two ends";
    return wrong_;
  }

 private:
  void visit(const RankPlan& plan, const Tiling& tiling) {
    std::vector<bool> written(outputBlocks(plan.spec, plan.rank) * shape_.count);
    for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane)
      for (std::size_t s = 0; s < plan.lanes[lane].steps.size(); ++s)
        for (std::size_t tile = 0; tile < tiling.tiles; ++tile)
          if (const TiledStep* part = partOf(tiling, lane, s, tile))
            visit(plan, plan.lanes[lane].steps[s], *part, tile * tiling.tile * kElement, written);
    for (const bool element : written)
      if (!element) wrong_ = "an element of the output is in no tile";
  }

  void visit(const RankPlan& plan, const Step& step, const TiledStep& part, std::size_t begin,
             std::vector<bool>& written) {
    std::size_t bytes = 0;
    for (std::size_t s = 0; s < part.segments.size(); ++s) {
      if (part.segments[s].packed != bytes) wrong_ = "segments are not packed one after the other";
      if (step.output && step.output->space == Space::output) {
        const std::size_t first = (part.output->offsets[s] + begin) / kElement;
        for (std::size_t e = first; e < first + part.segments[s].count; ++e) {
          if (e >= written.size()) return void(wrong_ = "a tile ends after the output");
          written[e] = true;
        }
      }
      bytes += part.segments[s].count * kElement;
    }
    if (part.bytes != bytes) wrong_ = "the message is not what the segments are";
    const auto record = [&](auto& messages, int channel) {
      messages[plan.channels[static_cast<std::size_t>(channel)]].push_back(part.bytes);
      if (part.bytes > limit_ * kElement) wrong_ = "a message does not fit";
    };
    for (const int channel : step.sends) record(sent_, channel);
    for (const Operand& input : step.inputs)
      if (!input.local()) record(received_, input.channel);
  }

  const std::vector<RankPlan>& plans_;
  const CallShape shape_;
  const std::size_t limit_;
  std::size_t tile_ = 0;
  std::map<Channel, std::vector<std::size_t>> sent_, received_;
  std::string wrong_;
};

} // namespace

TEST_CASE("tiles fit their messages, agree at both ends, and cover the call", "[tiles]") {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const Algorithm* algorithm : algorithms())
      for (const Collective collective : kCollectives) {
        const Spec spec{collective, ranks, ranks - 1, 0};
        if (!algorithm->supports(spec) || !traits(collective).movesData()) continue;
        const auto plans = buildAll(*algorithm, spec);
        for (const std::size_t count : {0, 1, 7, 64, 1000})
          for (const std::size_t limit : {40, 100, 5000}) {
            INFO(algorithm->name << ", " << name(collective) << " of " << ranks << " ranks, "
                                 << count << " elements, messages of " << limit);
            REQUIRE(Walk(plans, count, limit).wrong() == "");
          }
      }
}

TEST_CASE("if blocks differ, a step takes part in the tiles that its block reaches into",
          "[tiles]") {
  const RankPlan plan = findAlgorithm("linear")->build({Collective::gather, 3, 0, 0}, 0);
  CallShape shape{20, DataType::int32};
  shape.input = {{20}, {0}};
  shape.output = {{20, 33, 0}, {0, 100, 200}};
  const std::size_t tile = tileElements(plan, shape, 16);
  CHECK(tile == 16); // independent of the counts: not every rank knows all of them
  const Tiling tiling = cut(plan, shape, tile);
  CHECK(tiling.tiles == 3);
  std::map<std::size_t, std::size_t> tiles; // by the start of the block
  for (const auto& lane : tiling.last)
    for (const TiledStep& step : lane) tiles[step.output->offsets[0] / kElement] = step.tiles;
  CHECK(tiles == std::map<std::size_t, std::size_t>{{0, 2}, {100, 3}, {200, 1}});
}

TEST_CASE("small blocks are reduced to a root in small messages, but not over sockets", "[tiles]") {
  const RankPlan plan = findAlgorithm("tree")->build({Collective::reduce, 4, 0, 0}, 1);
  const auto elements = [&](std::size_t count, bool network_channels) {
    return messageElements(plan, {count, DataType::int32}, 128 << 10, network_channels);
  };
  CHECK(elements(1 << 18, false) == (32 << 10) / kElement); // a block of 1 MiB
  CHECK(elements((1 << 18) + 1, false) == (128 << 10) / kElement);
  CHECK(elements(1 << 18, true) == (128 << 10) / kElement);
}

} // namespace rondo::test
