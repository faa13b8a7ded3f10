// Interface that reduces the gradients of a pipeline stage over all ranks with the same stage, and
// takes the optimizer's step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rondo/train.h"
#include "train/loop/checkpoint.h"
#include "train/loop/stopwatch.h"
#include "train/optim/norm.h"
#include "train/parallel/mesh.h"
#include "train/parallel/pipeline/stage.h"

namespace rondo::training {

/// One step calls begin(), the stage's passes with ready(), wait(), update(). All ranks with the
/// same stage make the same calls in the same order. One thread.
class StageLearner {
 public:
  virtual ~StageLearner() = default;

  /// Adds the durations of the step's collectives to the timeline, unless it is null.
  virtual void begin(Timeline* timeline) = 0;
  /// Where the caller must write the gradient of the stage's weights()[weight], summed over this
  /// rank's micro-batches.
  virtual float* gradient(std::size_t weight) const = 0;
  /// The gradient has been written: its reduction may begin, while backward passes of other stages
  /// go on.
  virtual void ready(std::size_t weight) = 0;
  /// Returns when all gradients are reduced.
  virtual void wait() = 0;
  /// Takes the optimizer's step. A limit of 0 disables clipping. The norm is that of the gradients
  /// of all stages, which `over_stages` adds up.
  virtual void update(double learning_rate, float scale, double clip_limit,
                      const SumOverShards& over_stages) = 0;

  /// After an update weights may still be in transit: returns when they have arrived.
  virtual void settle() = 0;
  /// Collective. Returns the optimizer state, each array whole, in memory that is valid until
  /// begin().
  virtual std::vector<TensorMemory> gather() = 0;
  /// Collective, after gather(): continues with the values that are now in those arrays and in the
  /// weights.
  virtual void adopt(std::uint64_t steps) = 0;

  /// Bytes of weights, gradients and optimizer state on this rank.
  virtual std::uint64_t heldBytes() const = 0;
};

struct LearnerSetup {
  Communicator& comm;   ///< all ranks of the mesh
  Communicator& beside; ///< the ranks with the same stage
  const Mesh& mesh;
  const TrainOptions& options;
  Stage& stage;
};

/// Every rank holds the whole state of its stage. Buckets of gradients are all-reduced.
std::unique_ptr<StageLearner> wholeLearner(const LearnerSetup& setup);

/// The ranks along the axis shard hold one shard of the optimizer state each, as in zero1. The
/// ranks along data add up the gradients of their shards. The weights of the stage must have no
/// memory yet. Collective over setup.comm.
std::unique_ptr<StageLearner> shardedLearner(const LearnerSetup& setup);

} // namespace rondo::training
