// Which rank holds which part of a model, as a value: units of layers, and in each unit a range for
// every rank.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "train/data/sampler.h"
#include "train/layers/node.h"

namespace rondo::training {

/// Alignment of weights and of the ranges of ranks, in elements (floats): a cache line.
inline constexpr std::size_t kShardGrain = 16;

/// The elements rounded up to whole grains.
constexpr std::size_t onGrains(std::size_t elements) {
  return (elements + kShardGrain - 1) / kShardGrain * kShardGrain;
}

/// Consecutive layers whose weights are contiguous and are sent together.
struct ShardUnit {
  Range layers, weights; ///< indices of its layers and weights in the network
  std::size_t begin = 0; ///< its first element in the whole model
  std::size_t count = 0; ///< number of elements, including padding of each weight to a whole grain
  std::vector<std::size_t> sizes;  ///< elements of each of its weights
  std::vector<std::size_t> places; ///< first element of each weight, from the beginning of the unit
  /// Range of each rank, in elements from the beginning of the unit.
  std::vector<std::size_t> counts, offsets;

  Range range(std::size_t rank) const { return {offsets[rank], offsets[rank] + counts[rank]}; }
};

/// All units, in forward order. Their elements have the same order and padding as the weights in a
/// Replica.
struct ShardLayout {
  std::vector<ShardUnit> units;
  std::vector<std::size_t> unit_of_layer, unit_of_weight;
  std::size_t count = 0; ///< elements of the whole model

  /// Number of elements in the rank's ranges of all units. 0 is possible if there are more ranks
  /// than grains.
  std::size_t ownCount(std::size_t rank) const;
  /// The same without padding.
  std::size_t ownElements(std::size_t rank) const;
  /// The elements of a weight that are in the rank's range: one piece, which may be empty.
  Range piece(std::size_t weight, std::size_t rank) const;
};

/// The number of elements of each weight of each layer, in the order of definition.
using LayerSizes = std::vector<std::vector<std::size_t>>;
LayerSizes sizesOf(const std::vector<Node>& nodes);

/// Caps that make each layer with weights a unit of its own.
inline constexpr std::array<std::size_t, 1> kEachLayer = {0};

/// Builds units from the last layer to the first, which is the order of gradients. A unit ends with
/// the layer with which it reaches its cap in bytes: caps[0] for the last unit, caps[1] for the one
/// before it, and so on; the last cap is used for all further units. Layers are never split. Layers
/// without weights belong to the unit before them, those at the beginning of the model to the first
/// unit. Each unit is divided evenly: the ranges of two ranks differ by one grain at most. A model
/// without weights has one empty unit.
ShardLayout shardLayout(const LayerSizes& layers, std::size_t ranks,
                        std::span<const std::size_t> caps);

} // namespace rondo::training
