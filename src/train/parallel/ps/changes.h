// Tracks which keys of a piece have changed, and makes answers that contain only the changed keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/aligned.h"

namespace rondo::training::servers {

/// For each key, stores the number of the last move that changed it. Moves are counted from the
/// last synchronization point, where all ranks hold the same values. If a worker's values are those
/// after move n, its answer contains the keys with higher numbers: one bit for each key of the
/// piece, and the values of the changed keys.
class Changes {
 public:
  using Move = std::uint32_t;

  explicit Changes(std::size_t count) : before_(count), changed_(count) {}

  /// Called at a synchronization point.
  void begin();
  /// Called before and after each move of the values.
  void before(std::span<const float> values);
  void behind(std::span<const float> values);
  /// The number of the last move.
  Move newest() const { return newest_; }

  /// Writes the answer for a worker whose values are those after move `has`. Returns the number of
  /// keys in the answer; answerWords() gives its length.
  std::size_t answer(std::span<const float> values, Move has, float* words) const;

 private:
  AlignedVector<float> before_;
  std::vector<Move> changed_;
  Move newest_ = 0;
};

/// Length of an answer with `keys` of the piece's `keys_of_piece` keys, in words of 4 bytes. 0 for
/// no keys.
std::size_t answerWords(std::size_t keys_of_piece, std::size_t keys);

/// Applies an answer to the worker's values of the piece.
void take(const float* words, std::span<float> values);

} // namespace rondo::training::servers
