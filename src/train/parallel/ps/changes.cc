#include "train/parallel/ps/changes.h"

#include <algorithm>
#include <bit>

namespace rondo::training::servers {

namespace {

constexpr std::size_t kBits = 32;

std::size_t masks(std::size_t keys) { return (keys + kBits - 1) / kBits; }

} // namespace

void Changes::begin() {
  newest_ = 0;
  std::fill(changed_.begin(), changed_.end(), 0);
}

void Changes::before(std::span<const float> values) {
  std::copy(values.begin(), values.end(), before_.begin());
}

/// Compares bits, so that a zero whose sign flips counts as changed.
void Changes::behind(std::span<const float> values) {
  ++newest_;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::bit_cast<std::uint32_t>(values[i]) != std::bit_cast<std::uint32_t>(before_[i]))
      changed_[i] = newest_;
}

std::size_t Changes::answer(std::span<const float> values, Move has, float* words) const {
  std::size_t told = 0;
  float* next = words + masks(values.size());
  for (std::size_t begin = 0; begin < values.size(); begin += kBits) {
    std::uint32_t mask = 0;
    const std::size_t end = std::min(begin + kBits, values.size());
    for (std::size_t i = begin; i < end; ++i) {
      if (changed_[i] <= has) continue;
      mask |= 1U << (i - begin);
      *next++ = values[i];
      ++told;
    }
    words[begin / kBits] = std::bit_cast<float>(mask);
  }
  return told;
}

std::size_t answerWords(std::size_t keys_of_piece, std::size_t keys) {
  return keys == 0 ? 0 : masks(keys_of_piece) + keys;
}

void take(const float* words, std::span<float> values) {
  const float* next = words + masks(values.size());
  for (std::size_t begin = 0; begin < values.size(); begin += kBits)
    for (auto mask = std::bit_cast<std::uint32_t>(words[begin / kBits]); mask != 0;
         mask &= mask - 1)
      values[begin + static_cast<std::size_t>(std::countr_zero(mask))] = *next++;
}

} // namespace rondo::training::servers
