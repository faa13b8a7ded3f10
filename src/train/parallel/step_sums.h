// What data-parallel ranks sum in each step besides the gradients.
#pragma once

#include <span>

#include "rondo/train.h"
#include "train/aligned.h"

namespace rondo::training {

/// The loss, the wish to stop, and the statistics of batch norms. Running statistics change once
/// per step, by the mean over all samples, so the statistics of the micro-batches are added up, in
/// the same order as the gradients.
class StepSums {
 public:
  /// `statistics`: where a forward pass puts those of its batch. All arguments must outlive this
  /// object.
  StepSums(Communicator& comm, const TrainOptions& options, std::span<float> statistics);
  /// If an exception ended a step, aborts the communicator and waits until neither sum is in
  /// flight.
  ~StepSums();

  void begin();
  void addLoss(double loss) { sums_.loss += loss; }
  /// Call it after the forward pass of each micro-batch.
  void addStatistics(bool first);
  /// Starts both sums. Call it before the last backward pass, during which they are in flight.
  void send();
  void wait();

  /// Over this rank's samples; after wait() over those of all ranks.
  double loss() const { return sums_.loss; }
  bool stop() const { return sums_.stops > 0; }

 private:
  Communicator& comm_;
  const TrainOptions& options_;
  const std::span<float> statistics_;
  AlignedVector<float> earlier_; ///< the statistics of the earlier micro-batches
  struct Sums {
    double loss, stops;
  } sums_{};
  Work sent_, statistics_sent_;
};

} // namespace rondo::training
