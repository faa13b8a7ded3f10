// Which server holds which parameters, and how they travel: ranges of keys, cut into pieces.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train/data/sampler.h"
#include "train/layers/weight.h"

namespace rondo::training::servers {

/// A key is the place of a float in a replica's values: all weights, then the running statistics,
/// each beginning on a cache line. Gradients stand in an array of the same layout.
struct Piece {
  std::size_t begin = 0, count = 0;
  bool state = false;               ///< running statistics, which no optimizer moves
  std::vector<std::size_t> weights; ///< that have keys in it, by number; of state: none
};

/// Keys of a piece, 1 MiB: as large as messages must be to be fast, and small enough that a server
/// adds up one while the next is on its way.
inline constexpr std::size_t kPieceKeys = std::size_t{1} << 18;

/// One contiguous range of keys for each server, as equal as whole cache lines allow. Weights are
/// cut wherever a range or a piece ends.
struct Keys {
  std::size_t count = 0;                  ///< of all of them
  std::vector<Range> ranges;              ///< by server
  std::vector<std::vector<Piece>> pieces; ///< by server, in the order in which they travel: the
                                          ///< last keys, whose gradients come first, lead
};

/// For the weights and state of a replica whose values are `values`. No piece has more than
/// `most` keys, a multiple of a cache line's. Throws Error(invalid_argument) where a server would
/// have none.
Keys layOut(std::span<const float> values, std::span<Weight* const> weights,
            std::span<Weight* const> state, int servers, std::size_t most);

/// The part of a weight that lies in a piece, as a weight of its own.
std::vector<Weight> slices(const Piece& piece, std::span<const float> values,
                           std::span<Weight* const> weights, float* piece_values);

} // namespace rondo::training::servers
