// Which rank holds which part of a model, as a value: units, and in each a range for every rank.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "train/data/sampler.h"
#include "train/layers/node.h"

namespace rondo::training {

/// Elements: weights begin, and the ranges of ranks end, at multiples of so many, a cache line.
inline constexpr std::size_t kShardGrain = 16;

/// What so many elements take up.
constexpr std::size_t onGrains(std::size_t elements) {
  return (elements + kShardGrain - 1) / kShardGrain * kShardGrain;
}

/// A run of layers whose weights lie one behind the other and travel together.
struct ShardUnit {
  Range layers, weights;           ///< of the network, by number
  std::size_t begin = 0;           ///< of the whole model's elements
  std::size_t count = 0;           ///< elements, with what fills each weight up to a grain
  std::vector<std::size_t> sizes;  ///< of its weights, in elements
  std::vector<std::size_t> places; ///< where these begin, in elements from the unit's begin
  std::vector<std::size_t> counts, offsets; ///< of each rank's range: elements, from that begin too

  Range range(std::size_t rank) const { return {offsets[rank], offsets[rank] + counts[rank]}; }
};

/// All units in the order of the way forward. They lie in the order, and with the gaps, in which a
/// Replica holds the weights.
struct ShardLayout {
  std::vector<ShardUnit> units;
  std::vector<std::size_t> unit_of_layer, unit_of_weight;
  std::size_t count = 0; ///< elements of the whole model

  /// Of all its ranges. Of nothing where there are more ranks than grains.
  std::size_t ownCount(std::size_t rank) const;
  /// The same without what fills weights up.
  std::size_t ownElements(std::size_t rank) const;
  /// Where a rank's own part of a weight lies, in elements of the weight: one piece, maybe empty.
  Range piece(std::size_t weight, std::size_t rank) const;
};

/// How many elements each weight of each layer has, in order of definition.
using LayerSizes = std::vector<std::vector<std::size_t>>;
LayerSizes sizesOf(const std::vector<Node>& nodes);

/// Caps that make a unit of each layer that learns.
inline constexpr std::array<std::size_t, 1> kEachLayer = {0};

/// Fills units with layers from the last layer to the first, as gradients come. A unit is closed by
/// the layer with which it reaches its cap in bytes: caps[0] for the last layers, and so on, the
/// last cap for all others. Layers are never split; those that learn nothing belong to the unit
/// before them, the first ones to the first. Each unit is dealt out evenly, so that a rank's range
/// differs from another's by a grain at most. A model that learns nothing has one empty unit.
ShardLayout shardLayout(const LayerSizes& layers, std::size_t ranks,
                        std::span<const std::size_t> caps);

} // namespace rondo::training
