#include "train/parallel/sharding/layout.h"

#include <algorithm>
#include <numeric>

namespace rondo::training {

namespace {

std::size_t onGrains(const std::vector<std::size_t>& layer) {
  std::size_t sum = 0;
  for (std::size_t size : layer) sum += training::onGrains(size);
  return sum;
}

void collect(const Node& node, std::vector<std::size_t>& sizes) {
  for (const Weight* weight : node.weights) sizes.push_back(weight->size());
  for (const auto* inner : {&node.body, &node.shortcut})
    for (const Node& one : *inner) collect(one, sizes);
}

/// The first layer of each unit, in the order of the units.
std::vector<std::size_t> firstLayers(const LayerSizes& layers, std::span<const std::size_t> caps) {
  std::vector<std::size_t> first;
  std::size_t bytes = 0, closed = 0;
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    bytes += onGrains(layers[layer]) * sizeof(float);
    if (bytes == 0 || bytes < caps[std::min(closed, caps.size() - 1)]) continue;
    first.insert(first.begin(), layer);
    bytes = 0;
    ++closed;
  }
  if (bytes > 0 || first.empty()) first.insert(first.begin(), 0);
  first.front() = 0;
  return first;
}

void dealOut(ShardUnit& unit, std::size_t ranks) {
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Range grains = share(unit.count / kShardGrain, rank, ranks);
    unit.offsets.push_back(grains.begin * kShardGrain);
    unit.counts.push_back(grains.size() * kShardGrain);
  }
}

} // namespace

LayerSizes sizesOf(const std::vector<Node>& nodes) {
  LayerSizes sizes(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) collect(nodes[i], sizes[i]);
  return sizes;
}

ShardLayout shardLayout(const LayerSizes& layers, std::size_t ranks,
                        std::span<const std::size_t> caps) {
  ShardLayout layout;
  const std::vector<std::size_t> first = firstLayers(layers, caps);
  for (std::size_t u = 0; u < first.size(); ++u) {
    ShardUnit& unit = layout.units.emplace_back();
    unit.layers = {first[u], u + 1 < first.size() ? first[u + 1] : layers.size()};
    unit.weights = {layout.unit_of_weight.size(), layout.unit_of_weight.size()};
    unit.begin = layout.count;
    for (std::size_t layer = unit.layers.begin; layer < unit.layers.end; ++layer) {
      layout.unit_of_layer.push_back(u);
      for (std::size_t size : layers[layer]) {
        layout.unit_of_weight.push_back(u);
        ++unit.weights.end;
        unit.sizes.push_back(size);
        unit.places.push_back(unit.count);
        unit.count += training::onGrains(size);
      }
    }
    layout.count += unit.count;
    dealOut(unit, ranks);
  }
  return layout;
}

std::size_t ShardLayout::ownCount(std::size_t rank) const {
  return std::accumulate(
      units.begin(), units.end(), std::size_t{0},
      [rank](std::size_t sum, const ShardUnit& unit) { return sum + unit.counts[rank]; });
}

std::size_t ShardLayout::ownElements(std::size_t rank) const {
  std::size_t sum = 0;
  for (std::size_t w = 0; w < unit_of_weight.size(); ++w) sum += piece(w, rank).size();
  return sum;
}

Range ShardLayout::piece(std::size_t weight, std::size_t rank) const {
  const ShardUnit& unit = units[unit_of_weight[weight]];
  const std::size_t number = weight - unit.weights.begin;
  const std::size_t place = unit.places[number], end = place + unit.sizes[number];
  const Range own = unit.range(rank);
  return {std::clamp(own.begin, place, end) - place, std::clamp(own.end, place, end) - place};
}

} // namespace rondo::training
