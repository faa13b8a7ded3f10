// The training samples of a step, part by part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rondo/train.h"
#include "train/data/loader.h"
#include "train/data/sampler.h"

namespace rondo::training {

/// Shares out each step's batch to `parts` parts (micro-batches of all ranks), which differ by one
/// sample at most. Which samples a step takes depends on (seed, epoch) only. One thread at a time.
///
/// With TrainOptions::remainder "uneven" an epoch's last step may have fewer samples than parts:
/// some of these are empty then.
class Samples {
 public:
  /// What is passed must live as long.
  Samples(const TrainOptions& options, const Data& data, std::size_t parts);

  /// One part of step `step` (the first is 0) of an epoch (the first is 1), augmented as the
  /// options ask for. Good until the next call.
  Batch load(int epoch, int step, std::size_t part);
  /// Makes that batch now, while there is nothing else to do, for a load() of the same. Ends what
  /// load() gave before.
  void prepare(int epoch, int step, std::size_t part);
  /// The same without inputs.
  Batch loadLabels(int epoch, int step, std::size_t part);
  std::size_t parts() const { return parts_; }
  /// Samples of a step, over all parts.
  std::size_t count(int epoch, int step) {
    return sampler_.samples(epoch, static_cast<std::size_t>(step)).size();
  }

 private:
  /// A batch that stands in the loader, and where it belongs.
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
