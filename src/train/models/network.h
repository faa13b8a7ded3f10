// A model with its weights, and the passes through it: what the training loop works with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/data/batch.h"
#include "train/layers/fold.h"
#include "train/layers/node.h"
#include "train/layers/program.h"

namespace rondo::training {

/// One thread at a time. The same weights and batch give the same bits in every network of the same
/// model, on every rank, for the same number of compute threads. A pass over a batch size that was
/// there before allocates nothing of its own (oneDNN's call of a primitive does, some bytes), and
/// runs on as many compute threads as that first one.
class Network {
 public:
  /// Throws Error(unsupported), which says what to install, in a build without oneDNN, and
  /// Error(invalid_argument) for an unknown model or samples that do not fit it.
  Network(const std::string& model, const SampleShape& input, std::size_t classes);
  /// Of layers that are no registered model; the last one's features are the classes.
  Network(const LayerValues& layers, const SampleShape& input);

  /// In order of definition. The caller gives them memory before anything else is called.
  std::vector<Weight*> weights();
  /// Running statistics.
  std::vector<Weight*> state();

  /// Writes all values, of the state too: the same on every machine.
  void initialise(std::uint64_t seed);
  /// To be called whenever values were changed: layers may hold copies in other layouts.
  void weightsChanged();
  /// Moves the running statistics by what their gradients hold, sums over so many batches. So one
  /// step's micro-batches count alike, whether they ran one after the other or on many ranks.
  void moveState(std::size_t batches);

  /// A training pass: the sum of the samples' losses.
  double forward(const Batch& batch, const Pass& pass);
  /// Writes the gradient of that sum. ready(i) says that weights()[i] has its own; the last
  /// layers' come first.
  void backward(const Ready& ready);

  /// Of the last pass forward: "layer 3", as in the names of its weights, the first one whose
  /// output is not finite; "the loss" if all are.
  std::string firstNotFinite() const;

  /// By the running statistics, without dropout.
  Score evaluate(const Batch& batch);
  /// What evaluate() computes, for export: layers without the batch norms behind convolutions, and
  /// their weights, as they are until the next pass forward or change of weights.
  const std::vector<Node>& folded();

 private:
  Program& program(std::size_t count, bool training);

  SampleShape input_;
  Weights weights_;
  std::vector<Node> nodes_;
  std::optional<Folded> folded_;
  std::uint64_t version_ = 1, folded_version_ = 0; ///< of the weights' values
  bool stale_ = true;                              ///< the folded ones
  std::map<std::pair<std::size_t, bool>, std::unique_ptr<Program>> programs_;
  Program* passed_ = nullptr; ///< the last pass forward's
};

} // namespace rondo::training
