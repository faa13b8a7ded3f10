// Turns samples of a data set into a network's input.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "train/aligned.h"
#include "train/data/augment.h"
#include "train/data/batch.h"
#include "train/data/dataset.h"

namespace rondo::training {

/// Makes a batch on the caller's thread: with one core a rank another one only takes the core from
/// the layers. (64 images of 28 x 28 are 30 us of 0.6 ms, the smallest model's step; handing them
/// over from thread to thread takes 33 us more.) Allocates nothing later. One thread at a time.
class Loader {
 public:
  /// Batches of up to `most` samples. `set` must live as long.
  Loader(const Dataset& set, std::span<const ChannelStatistics> statistics, std::size_t most);

  /// The samples as they are: (pixel / 255 - mean) / deviation. Good until the next call.
  Batch load(std::span<const std::uint32_t> samples);
  /// The samples as they are shown in this epoch.
  Batch load(std::span<const std::uint32_t> samples, const Augmentation& augmentation,
             std::uint64_t seed, int epoch);
  /// The samples first to first + count - 1, for evaluation.
  Batch load(std::size_t first, std::size_t count);
  /// The same without inputs, which are null: for those who have no first layer.
  Batch loadLabels(std::span<const std::uint32_t> samples) { return finish(samples, nullptr); }
  Batch loadLabels(std::size_t first, std::size_t count);

 private:
  using Shades = std::array<float, 256>; ///< what a pixel's value becomes

  std::span<const std::uint32_t> number(std::size_t first, std::size_t count);
  Batch finish(std::span<const std::uint32_t> samples, const float* inputs);

  const Dataset& set_;
  std::vector<Shades> shades_; ///< by channel
  AlignedVector<float> inputs_;
  std::vector<std::uint8_t> labels_;
  std::vector<std::uint32_t> samples_;
};

} // namespace rondo::training
