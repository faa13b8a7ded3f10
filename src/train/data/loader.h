// Turns samples of a data set into the input of a network.
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

/// Makes batches on the caller's thread. With one core per rank, a thread of its own would only
/// take the core from the layers. (64 images of 28 x 28 take 30 us of the smallest model's step of
/// 0.6 ms; passing them from one thread to another takes 33 us more.) Allocates only in its
/// constructor. Not thread-safe.
class Loader {
 public:
  /// For batches of up to `most` samples. `set` must outlive the loader.
  Loader(const Dataset& set, std::span<const ChannelStatistics> statistics, std::size_t most);

  /// Loads the samples without augmentation: (pixel / 255 - mean) / deviation. Valid until the next
  /// call.
  Batch load(std::span<const std::uint32_t> samples);
  /// Loads the samples as the augmentation shows them in this epoch.
  Batch load(std::span<const std::uint32_t> samples, const Augmentation& augmentation,
             std::uint64_t seed, int epoch);
  /// Loads samples first to first + count - 1, for evaluation.
  Batch load(std::size_t first, std::size_t count);
  /// The same without inputs, which are null: for ranks that do not have the first layer.
  Batch loadLabels(std::span<const std::uint32_t> samples) { return finish(samples, nullptr); }
  Batch loadLabels(std::size_t first, std::size_t count);

 private:
  using Shades = std::array<float, 256>; ///< the normalised value of each pixel value

  std::span<const std::uint32_t> number(std::size_t first, std::size_t count);
  Batch finish(std::span<const std::uint32_t> samples, const float* inputs);

  const Dataset& set_;
  std::vector<Shades> shades_; ///< by channel
  AlignedVector<float> inputs_;
  std::vector<std::uint8_t> labels_;
  std::vector<std::uint32_t> samples_;
};

} // namespace rondo::training
