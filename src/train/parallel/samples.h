// Loads the training samples of a step, one part at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rondo/train.h"
#include "train/data/loader.h"
#include "train/data/sampler.h"

namespace rondo::training {

/// Divides the batch of each step into `parts` parts (the micro-batches of all ranks), whose sizes
/// differ by at most one sample. The samples of a step depend on (seed, epoch) only. One thread at
/// a time.
///
/// With TrainOptions::remainder "uneven" the last step of an epoch may have fewer samples than
/// parts: then some parts are empty.
class Samples {
 public:
  /// The arguments must outlive this object.
  Samples(const TrainOptions& options, const Data& data, std::size_t parts);

  /// Loads one part of step `step` (the first is 0) of an epoch (the first is 1), augmented if the
  /// options ask for it. Valid until the next call.
  Batch load(int epoch, int step, std::size_t part);
  /// Loads that part in advance: the next load() of the same part returns it. Invalidates the batch
  /// that load() returned before.
  void prepare(int epoch, int step, std::size_t part);
  /// Like load(), but without the inputs.
  Batch loadLabels(int epoch, int step, std::size_t part);
  std::size_t parts() const { return parts_; }
  /// Number of samples of a step, over all parts.
  std::size_t count(int epoch, int step) {
    return sampler_.samples(epoch, static_cast<std::size_t>(step)).size();
  }

 private:
  /// A batch that has been loaded in advance, and which part it is.
  struct Prepared {
    int epoch, step;
    std::size_t part;
    Batch batch;
  };

  Batch make(int epoch, int step, std::size_t part);
  std::span<const std::uint32_t> numbers(int epoch, int step, std::size_t part);

  const TrainOptions& options_;
  const std::size_t parts_;
  Sampler sampler_;
  Loader loader_;
  std::optional<Prepared> prepared_;
};

} // namespace rondo::training
