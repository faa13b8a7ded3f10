// One rank's half of a training run: steps, epochs, evaluation.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "rondo/gradients.h"
#include "rondo/train.h"
#include "train/aligned.h"
#include "train/data/loader.h"
#include "train/data/sampler.h"
#include "train/loop/settings.h"
#include "train/mlp.h"

namespace rondo::training {

using Progress = std::function<void(const TrainProgress&)>;

class Trainer {
 public:
  /// Collective, as run(). The options must live as long.
  Trainer(Communicator& comm, const TrainOptions& options, Data data);

  TrainReport run(const Progress& progress);

 private:
  void runEpoch(int epoch, const Progress& progress, TrainReport& report);
  double runStep(std::span<const std::uint32_t> samples);
  Work computeGradients(std::span<const std::uint32_t> samples);
  void update();
  void verify(const TrainProgress& now);
  double evaluate();
  std::uint64_t parameterHash() const;
  std::vector<Parameter> parameters();

  Communicator& comm_;
  const TrainOptions& options_;
  const Data data_;
  Mlp<float> model_;
  AlignedVector<float> parameters_, velocity_;
  std::vector<std::size_t> counts_; ///< elements of each parameter
  GradientReducer reducer_;
  double loss_ = 0;           ///< of the step's samples: its reduction may be on its way
  AlignedVector<float> part_; ///< gradient of a micro-batch behind the first
  Loader train_, test_;
  Sampler sampler_;
};

} // namespace rondo::training
