// What becomes of the gradients of a pipeline's stage: sums over all ranks that have the stage, and
// the optimizer's step.
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

/// A step is begin(), the stage's passes with ready(), wait(), update(). Every rank that has the
/// stage calls the same in the same order. One thread.
class StageLearner {
 public:
  virtual ~StageLearner() = default;

  /// What the step's collectives take is shown in the timeline; null: nowhere.
  virtual void begin(Timeline* timeline) = 0;
  /// Where the sum of the gradients of the stage's weights()[i] over this rank's micro-batches is
  /// to stand.
  virtual float* gradient(std::size_t weight) const = 0;
  /// It stands there: its reduction may begin, while other stages' passes back go on.
  virtual void ready(std::size_t weight) = 0;
  /// Returns when all gradients are reduced.
  virtual void wait() = 0;
  /// The optimizer's step. A limit of 0 clips nothing; the norm is that of all stages' gradients,
  /// which `over_stages` adds up.
  virtual void update(double learning_rate, float scale, double clip_limit,
                      const SumOverShards& over_stages) = 0;

  /// Behind an update weights may be on their way: returns when they are there.
  virtual void settle() = 0;
  /// Collective. What the optimizer keeps, each array whole, in memory that is good until begin().
  virtual std::vector<TensorMemory> gather() = 0;
  /// Collective, behind gather(): goes on with the values that stand there now, and in the weights.
  virtual void adopt(std::uint64_t steps) = 0;

  /// Of weights, gradients and what the optimizer keeps.
  virtual std::uint64_t heldBytes() const = 0;
};

struct LearnerSetup {
  Communicator& comm;   ///< of all ranks of the mesh
  Communicator& beside; ///< of those that have this stage
  const Mesh& mesh;
  const TrainOptions& options;
  Stage& stage;
};

/// Every rank keeps all that belongs to its stage; buckets of gradients are all-reduced.
std::unique_ptr<StageLearner> wholeLearner(const LearnerSetup& setup);

/// The ranks along the axis shard keep a part each of what the optimizer needs, as in zero1; those
/// along data add up their parts. The stage's weights are without memory before. Collective over
/// setup.comm.
std::unique_ptr<StageLearner> shardedLearner(const LearnerSetup& setup);

} // namespace rondo::training
