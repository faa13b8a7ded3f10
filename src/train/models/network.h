// A model, or some of its layers, with its weights, and the passes through it: what the training
// loop works with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "train/data/batch.h"
#include "train/layers/compute.h"
#include "train/layers/fold.h"
#include "train/layers/node.h"
#include "train/layers/program.h"

namespace rondo::training {

/// Layers begin to end - 1 of a model, or to the last if there are not so many.
struct LayerRange {
  std::size_t begin, end;
  bool operator==(const LayerRange&) const = default;
};
inline constexpr LayerRange kAllLayers{0, static_cast<std::size_t>(-1)};

/// One thread at a time. The same weights and batch give the same bits in every network of the same
/// model, on every rank, for the same number of compute threads. A pass over a batch size that was
/// there before allocates nothing of its own (oneDNN's call of a primitive does, some bytes), and
/// runs on as many compute threads as that first one.
class Network {
 public:
  /// Throws Error(unsupported), which says what to install, in a build without oneDNN, and
  /// Error(invalid_argument) for an unknown model or samples that do not fit it.
  Network(const std::string& model, const SampleShape& input, std::size_t classes,
          Compute compute = {});
  /// Of layers that need be no registered model; the last one's features are the classes. Or of
  /// some of them only, named and initialised as in the whole network, of which `input` is the
  /// samples' shape. One that does not begin with the first layer takes what the layer before it
  /// makes for a batch's inputs; one that does not end with the last has output() in place of a
  /// loss. A chain of them gives the same losses and gradients as the whole, bit for bit where no
  /// layer behind a cut chooses its sums' order by the layout of what comes in: convolutions,
  /// linear layers and residuals that begin with one do not.
  Network(const LayerValues& layers, const SampleShape& input, LayerRange part = kAllLayers,
          Compute compute = {});

  /// Of one sample, on its way in and out.
  const SampleShape& inputShape() const { return nodes_.front().in; }
  const SampleShape& outputShape() const { return nodes_.back().out; }

  /// In order of definition. The caller gives them memory before anything else is called.
  std::vector<Weight*> weights() { return weights_; }
  /// Running statistics.
  std::vector<Weight*> state() { return state_; }

  /// Before the first pass, for weights that are not always there: the programs will call `before`,
  /// and keep nothing of them if they do not stay; evaluation then runs the layers as they are.
  void shareWeights(Before before, bool weights_stay);

  /// Writes all values, of the state too: the same on every machine. `written` is told of each
  /// weight that is complete, in order, before the next one is written.
  void initialise(std::uint64_t seed, const std::function<void(const Weight&)>& written = {});
  /// To be called whenever values were changed: layers may hold copies in other layouts.
  void weightsChanged();
  /// Moves the running statistics by what their gradients hold, sums over so many batches. So one
  /// step's micro-batches count alike, whether they ran one after the other or on many ranks.
  void moveState(std::size_t batches);

  /// A training pass: the sum of the samples' losses; 0 where the layers do not end with the loss.
  /// Passes of different slots, 0 and up, keep their activations apart: several micro-batches may
  /// be on their way through, each with its own memory.
  double forward(const Batch& batch, const Pass& pass, std::size_t slot = 0);
  /// What the slot's last pass forward made, [count x outputShape()], where that is not the loss.
  const float* output(std::size_t slot) const { return passed_[slot]->output(); }
  /// Writes the gradient of that sum. ready(i) says that weights()[i] has its own; the last
  /// layers' come first.
  void backward(const GradientReady& ready) { backward(nullptr, ready, 0); }
  /// The same of a slot's last pass forward, from the gradient of output() where that is not the
  /// loss.
  void backward(const float* gradient, const GradientReady& ready, std::size_t slot) {
    passed_[slot]->backward(gradient, ready);
  }
  /// [count x inputShape()] of the slot's last pass back, until its next pass; not of the samples.
  const float* inputGradient(std::size_t slot) const { return passed_[slot]->inputGradient(); }

  /// Of the slot's last pass forward: "layer 3", as in the names of its weights, the first one
  /// whose output is not finite; if all are, "the loss", or "" where there is none.
  std::string firstNotFinite(std::size_t slot = 0) const;

  /// By the running statistics, without dropout.
  Score evaluate(const Batch& batch);
  /// The same where the layers do not end with the loss: what they make, until the next call.
  const float* evaluateOutput(const Batch& batch);
  /// Its layers, as they were placed.
  const std::vector<Node>& nodes() const { return nodes_; }
  /// What evaluate() computes, for export: layers without the batch norms behind convolutions, and
  /// their weights, as they are until the next pass forward or change of weights.
  const std::vector<Node>& folded();

 private:
  Program& program(std::size_t count, bool training, std::size_t slot);

  Weights all_; ///< of the whole network's layers
  std::vector<Weight*> weights_, state_;
  bool begins_, ends_;
  Compute compute_;
  std::vector<Node> nodes_;
  std::optional<Folded> folded_;
  std::uint64_t version_ = 1, folded_version_ = 0; ///< of the weights' values
  bool stale_ = true;                              ///< the folded ones
  Before before_;
  bool weights_stay_ = true;
  std::map<std::tuple<std::size_t, bool, std::size_t>, std::unique_ptr<Program>> programs_;
  std::vector<Program*> passed_; ///< the last pass forward's, by slot
};

} // namespace rondo::training
