// Which keys of a piece have changed since when, and the answer that tells a worker just those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/aligned.h"

namespace rondo::training::servers {

/// Of each key the number of the last move that changed it, counted from the last meeting, where
/// everybody holds the same values. A worker whose values are those behind move n lacks the keys
/// with higher numbers: it gets a bit for each key, and the values of those.
class Changes {
 public:
  using Move = std::uint32_t;

  explicit Changes(std::size_t count) : before_(count), changed_(count) {}

  /// At a meeting.
  void begin();
  /// Before and behind a move of the values.
  void before(std::span<const float> values);
  void behind(std::span<const float> values);
  /// Of the newest values.
  Move newest() const { return newest_; }

  /// Writes the answer for whoever has the values behind that move: answerWords() of what it
  /// returns, which is how many keys are in it.
  std::size_t answer(std::span<const float> values, Move has, float* words) const;

 private:
  AlignedVector<float> before_;
  std::vector<Move> changed_;
  Move newest_ = 0;
};

/// Of 4 bytes, for so many of a piece's keys. None for none.
std::size_t answerWords(std::size_t keys_of_piece, std::size_t keys);

/// Brings the piece's values up to date.
void take(const float* words, std::span<float> values);

} // namespace rondo::training::servers
