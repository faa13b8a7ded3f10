// Assigns ranges of parameters (keys) to servers, and cuts the ranges into pieces to send.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train/data/sampler.h"
#include "train/layers/weight.h"

namespace rondo::training::servers {

/// A key is the index of a float among a replica's values: first all weights, then the running
/// statistics, each beginning on a cache line. Gradients are in an array of the same layout.
struct Piece {
  std::size_t begin = 0, count = 0;
  bool state = false; ///< running statistics, which the optimizer does not change
  /// Indices of the weights that have keys in this piece; empty for state.
  std::vector<std::size_t> weights;
};

/// Keys of a piece: 1 MiB. Large enough for full speed, small enough that a server adds up one
/// piece while the next is in flight.
inline constexpr std::size_t kPieceKeys = std::size_t{1} << 18;

/// One contiguous range of keys for each server, of sizes as equal as whole cache lines allow. A
/// weight may be cut where a range or a piece ends.
struct Keys {
  std::size_t count = 0;     ///< number of all keys
  std::vector<Range> ranges; ///< by server
  /// By server, in the order in which they are sent: the last keys first, because the backward pass
  /// completes their gradients first.
  std::vector<std::vector<Piece>> pieces;
};

/// Lays out the weights and state of a replica whose values are `values`. No piece has more than
/// `most` keys, which must be a multiple of the keys of a cache line. Throws
/// Error(invalid_argument) if a server would have no keys.
Keys layOut(std::span<const float> values, std::span<Weight* const> weights,
            std::span<Weight* const> state, int servers, std::size_t most);

/// The parts of weights that lie in a piece, each as a weight of its own.
std::vector<Weight> slices(const Piece& piece, std::span<const float> values,
                           std::span<Weight* const> weights, float* piece_values);

} // namespace rondo::training::servers
