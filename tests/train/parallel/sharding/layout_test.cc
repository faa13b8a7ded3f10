// Tests the layout of shards: every element has one place, and memory in use at the same time is in
// different slots.
#include "train/parallel/sharding/layout.h"

#include <set>

#include "rondo/error.h"
#include "support/ranks.h"
#include "support/test.h"
#include "train/parallel/sharding/memory.h"
#include "train/random.h"

namespace rondo::test {

using training::LayerSizes;
using training::ModelMemory;
using training::Range;
using training::ShardLayout;
using training::shardLayout;
using training::ShardLevel;
using training::ShardSlots;
using training::ShardUnit;

namespace {

constexpr std::size_t kGrain = training::kShardGrain;

std::size_t padded(std::size_t size) { return (size + kGrain - 1) / kGrain * kGrain; }

/// Weights with sizes around a grain, and layers without weights at the beginning, between and at
/// the end.
std::vector<LayerSizes> models() {
  std::vector<LayerSizes> all = {{},
                                 {{}},
                                 {{1}},
                                 {{}, {16, 1}, {}, {17}, {15, 33}, {}},
                                 {{200704, 256}, {}, {32768, 128}, {}, {8192, 64}, {}, {640, 10}}};
  training::Random random(7);
  for (std::size_t layers : {2, 3, 5, 9, 17}) {
    LayerSizes& model = all.emplace_back(layers);
    for (auto& layer : model)
      for (std::uint32_t w = random.below(4); w > 0; --w) layer.push_back(1 + random.below(300));
  }
  return all;
}

const std::vector<std::vector<std::size_t>> kCaps = {{0},    {1},        {100},
                                                     {1000}, {64, 2048}, {std::size_t{1} << 30}};

/// A text about the first error in a unit's place among the others, or in the places of its
/// weights.
std::string complaintAboutUnit(const LayerSizes& model, const ShardLayout& layout, std::size_t u,
                               std::size_t ranks) {
  const ShardUnit& unit = layout.units[u];
  std::size_t place = 0, weight = unit.weights.begin;
  for (std::size_t layer = unit.layers.begin; layer < unit.layers.end; ++layer) {
    if (layout.unit_of_layer[layer] != u) return "a layer is in two units";
    for (std::size_t size : model[layer]) {
      if (layout.unit_of_weight[weight] != u) return "a weight is in two units";
      if (unit.places[weight - unit.weights.begin] != place) return "a weight is misplaced";
      if (unit.sizes[weight - unit.weights.begin] != size) return "a weight has another size";
      std::size_t covered = 0;
      for (std::size_t r = 0; r < ranks; ++r) {
        const Range piece = layout.piece(weight, r);
        if (piece.size() == 0) continue;
        if (piece.begin != covered) return "pieces of a weight leave a gap or overlap";
        covered = piece.end;
        const Range own = unit.range(r);
        if (place + piece.begin < own.begin || place + piece.end > own.end)
          return "a piece is outside of its rank's range";
      }
      if (covered != size) return "elements of a weight belong to no rank";
      place += padded(size);
      ++weight;
    }
  }
  return place == unit.count && weight == unit.weights.end ? "" : "the unit's size is another";
}

std::string complaintAboutRanges(const ShardUnit& unit, std::size_t ranks) {
  std::size_t end = 0, least = unit.count, most = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    const Range own = unit.range(r);
    if (own.begin != end) return "ranges leave a gap or overlap";
    if (own.begin % kGrain != 0) return "a range begins within a grain";
    end = own.end;
    least = std::min(least, own.size());
    most = std::max(most, own.size());
  }
  if (end != unit.count) return "elements of the unit belong to no rank";
  return most - least <= kGrain ? "" : "ranges differ by more than a grain";
}

} // namespace

TEST_CASE("every element of every weight is in one unit and one rank's range") {
  for (const LayerSizes& model : models())
    for (std::size_t ranks : {1, 2, 3, 4, 5, 7, 8, 64})
      for (const auto& caps : kCaps) {
        const ShardLayout layout = shardLayout(model, ranks, caps);
        INFO(model.size() << " layers, " << ranks << " ranks, first cap " << caps[0]);
        REQUIRE(!layout.units.empty());
        REQUIRE(layout.unit_of_layer.size() == model.size());
        std::size_t layers = 0, weights = 0, elements = 0, owned = 0;
        for (std::size_t u = 0; u < layout.units.size(); ++u) {
          const ShardUnit& unit = layout.units[u];
          REQUIRE(unit.layers.begin == layers);
          REQUIRE(unit.weights.begin == weights);
          REQUIRE(unit.begin == elements);
          REQUIRE(complaintAboutUnit(model, layout, u, ranks) == "");
          REQUIRE(complaintAboutRanges(unit, ranks) == "");
          layers = unit.layers.end;
          weights = unit.weights.end;
          elements += unit.count;
        }
        REQUIRE(layers == model.size());
        REQUIRE(weights == layout.unit_of_weight.size());
        REQUIRE(elements == layout.count);
        for (std::size_t r = 0; r < ranks; ++r) owned += layout.ownCount(r);
        REQUIRE(owned == layout.count);
      }
}

TEST_CASE("units are built from the last layer on, and end with the layer that reaches the cap") {
  const LayerSizes mlp = {{}, {200704, 256}, {}, {32768, 128}, {}, {8192, 64}, {}, {640, 10}};
  const auto units = [&](std::vector<std::size_t> caps) {
    std::vector<std::size_t> first;
    for (const ShardUnit& unit : shardLayout(mlp, 4, caps).units)
      first.push_back(unit.layers.begin);
    return first;
  };
  CHECK(units({0}) == std::vector<std::size_t>{0, 3, 5, 7});
  CHECK(units({1}) == std::vector<std::size_t>{0, 3, 5, 7});
  CHECK(units({656 * 4}) == std::vector<std::size_t>{0, 3, 5, 7}); // 640 and 10, each padded
  CHECK(units({656 * 4 + 1}) == std::vector<std::size_t>{0, 3, 5});
  CHECK(units({100000}) == std::vector<std::size_t>{0, 3});
  CHECK(units({0, 100000}) == std::vector<std::size_t>{0, 3, 7});
  CHECK(units({std::size_t{1} << 30}) == std::vector<std::size_t>{0});
}

TEST_CASE("if a unit has fewer grains than ranks, some ranks hold nothing of it") {
  const ShardLayout layout = shardLayout({{17}, {1}}, 5, std::vector<std::size_t>{0});
  REQUIRE(layout.units.size() == 2);
  CHECK(layout.units[0].counts == std::vector<std::size_t>{0, 0, 16, 0, 16});
  CHECK(layout.units[1].counts == std::vector<std::size_t>{0, 0, 0, 0, 16});
  CHECK(layout.piece(0, 0).size() == 0);
  CHECK(layout.piece(0, 4).begin == 16);
  CHECK(layout.piece(0, 4).end == 17);
  CHECK(layout.ownCount(3) == 0);
}

TEST_CASE(
    "memory that a step needs at the same time is in different slots, which are large enough") {
  for (const LayerSizes& model : models()) {
    const ShardLayout layout = shardLayout(model, 3, std::vector<std::size_t>{0});
    const auto three = ShardSlots::sizes(layout, ShardLevel::parameters);
    const auto two = ShardSlots::sizes(layout, ShardLevel::gradients);
    REQUIRE(ShardSlots::sizes(layout, ShardLevel::optimizer).empty());
    for (std::size_t u = 0; u < layout.units.size(); ++u) {
      const std::size_t own = ShardSlots::parameters(u);
      const std::size_t back = ShardSlots::gradients(u, ShardLevel::parameters);
      REQUIRE(three[own] >= layout.units[u].count);
      REQUIRE(three[back] >= layout.units[u].count);
      REQUIRE(two[ShardSlots::gradients(u, ShardLevel::gradients)] >= layout.units[u].count);
      REQUIRE(own != back);
      if (u + 1 == layout.units.size()) continue;
      // In flight at the same time: in the forward pass, the next unit's parameters; in the
      // backward pass, the next unit's gradients, whose slot then gets the previous unit's
      // parameters.
      REQUIRE(ShardSlots::parameters(u + 1) != own);
      const std::size_t leaving = ShardSlots::gradients(u + 1, ShardLevel::parameters);
      REQUIRE(std::set{own, back, leaving}.size() == 3);
      if (u > 0) REQUIRE(ShardSlots::parameters(u - 1) == leaving);
      REQUIRE(ShardSlots::gradients(u, ShardLevel::gradients) !=
              ShardSlots::gradients(u + 1, ShardLevel::gradients));
    }
  }
}

TEST_CASE("four ranks with momentum hold a quarter of the model and whole units, by the formula") {
  LayerSizes model(12, {4096, 64});
  model[5] = {9008};
  const ShardLayout layout = shardLayout(model, 4, std::vector<std::size_t>{0});
  const ShardLayout alone = shardLayout(model, 1, std::vector<std::size_t>{0});
  for (std::size_t arrays : {1, 2})
    for (std::size_t rank : {0, 1, 2, 3}) {
      const ModelMemory whole = wholeMemory(alone, arrays, false);
      const std::size_t own = layout.ownCount(rank) * 4, all = layout.count * 4;
      const std::size_t unit = padded(9008) * 4, other = 4160 * 4;
      REQUIRE(whole.total() == (2 + arrays) * all);
      const auto at = [&](ShardLevel level) {
        return predictedMemory(layout, {.level = level, .rank = rank, .arrays = arrays});
      };
      REQUIRE(at(ShardLevel::optimizer) == ModelMemory{all, all, arrays * own, 0});
      REQUIRE(at(ShardLevel::gradients) == ModelMemory{all, own, arrays * own, unit + other});
      // Unit 5's parameters are in slot 2, its gradients in slot 0.
      REQUIRE(at(ShardLevel::parameters) == ModelMemory{own, own, arrays * own, 2 * unit + other});
      const std::size_t grains = layout.units.size() * kGrain * 4; // ranges are rounded to grains
      REQUIRE(at(ShardLevel::parameters).total() <=
              whole.total() / 4 + (2 + arrays) * (unit + grains));
    }
}

TEST_CASE("a limit below the need is refused with all numbers") {
  const ModelMemory need{.parameters = 400, .gradients = 300, .optimizer = 200, .slots = 100};
  REQUIRE_NOTHROW(training::requireFits("fsdp", need, 0));
  REQUIRE_NOTHROW(training::requireFits("fsdp", need, 1000));
  try {
    training::requireFits("fsdp", need, 999);
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(std::string(error.what()) ==
          "train: memory_limit is 999 bytes, but strategy fsdp needs 1000 on a rank: 400 for "
          "parameters, 300 for gradients, 200 for the optimizer, 100 for whole units");
  }
}

} // namespace rondo::test
