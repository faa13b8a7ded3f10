// A model, or some of its layers, with its weights, and forward and backward passes through it.
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

/// Layers begin to end - 1 of a model, or up to the last layer if there are fewer.
struct LayerRange {
  std::size_t begin, end;
  bool operator==(const LayerRange&) const = default;
};
inline constexpr LayerRange kAllLayers{0, static_cast<std::size_t>(-1)};

/// Not thread-safe. The same weights and batch give the same bits in every network of the same
/// model, on every rank, for the same number of compute threads. A pass with a batch size that was
/// used before does not allocate memory itself (oneDNN allocates some bytes per primitive), and
/// uses the number of compute threads of the first pass with that size.
class Network {
 public:
  /// Throws Error(unsupported), which says what to install, in a build without oneDNN, and
  /// Error(invalid_argument) for an unknown model or samples that do not fit it.
  Network(const std::string& model, const SampleShape& input, std::size_t classes,
          Compute compute = {});
  /// Makes a network of any layers, registered or not; the last layer's features are the classes.
  /// `part` selects some of the layers, which are named and initialised as in the whole network;
  /// `input` is always the shape of the whole network's samples. A part that does not begin with
  /// the first layer takes the output of the layer before it as a batch's inputs. A part that does
  /// not end with the last layer has output() instead of a loss. A chain of parts gives the same
  /// losses and gradients as the whole network. It gives the same bits if no layer after a cut
  /// chooses the order of its sums by the memory layout of its input. That holds for convolutions,
  /// linear layers, and residuals that begin with one of these.
  Network(const LayerValues& layers, const SampleShape& input, LayerRange part = kAllLayers,
          Compute compute = {});

  /// Shapes of one sample before and after the network.
  const SampleShape& inputShape() const { return nodes_.front().in; }
  const SampleShape& outputShape() const { return nodes_.back().out; }

  /// Weights in order of definition. The caller must set their memory before it calls anything
  /// else.
  std::vector<Weight*> weights() { return weights_; }
  /// Running statistics.
  std::vector<Weight*> state() { return state_; }

  /// For weights that are not always in memory; must be called before the first pass. Programs call
  /// `before` when they need weights. If not `weights_stay`, they keep no copies of weights, and
  /// evaluation runs the layers without folding.
  void shareWeights(Before before, bool weights_stay);

  /// Writes all values, including running statistics; they are the same on every machine. `written`
  /// is called after each weight, in order, before the next one is written.
  void initialise(std::uint64_t seed, const std::function<void(const Weight&)>& written = {});
  /// Must be called after each change of values, since layers may hold copies in other layouts.
  void weightsChanged();
  /// Updates the running statistics from their gradients, which are sums over the passes of a step:
  /// of `samples` samples, whether one rank ran them in sequence or many ranks at once.
  void moveState(std::size_t samples);

  /// A training pass. Returns the sum of the samples' losses, or 0 if the layers do not end with
  /// the loss. The gradients of running statistics are those of the batch times its samples. Passes
  /// in different slots (0, 1, ...) keep separate activations, so several micro-batches can be in
  /// flight.
  double forward(const Batch& batch, const Pass& pass, std::size_t slot = 0);
  /// Output of the slot's last forward pass, [count x outputShape()], if the layers do not end with
  /// the loss.
  const float* output(std::size_t slot) const { return passed_[slot]->output(); }
  /// Writes the gradient of that sum. Calls ready(i) when weights()[i] has its gradient; the last
  /// layers come first.
  void backward(const GradientReady& ready) { backward(nullptr, ready, 0); }
  /// The same for the slot's last forward pass, from the gradient of output() if the layers do not
  /// end with the loss.
  void backward(const float* gradient, const GradientReady& ready, std::size_t slot) {
    passed_[slot]->backward(gradient, ready);
  }
  /// Gradient of the input of the slot's last backward pass, [count x inputShape()], valid until
  /// the slot's next pass. Not available for the layer that takes the samples.
  const float* inputGradient(std::size_t slot) const { return passed_[slot]->inputGradient(); }

  /// The first layer whose output was not finite in the slot's last forward pass: "layer 3", as in
  /// the names of its weights. If all outputs are finite: "the loss", or "" if there is no loss.
  std::string firstNotFinite(std::size_t slot = 0) const;

  /// Evaluates with the running statistics, without dropout.
  Score evaluate(const Batch& batch);
  /// The same for layers that do not end with the loss. Returns their output, valid until the next
  /// call.
  const float* evaluateOutput(const Batch& batch);
  /// All layers, with their shapes.
  const std::vector<Node>& nodes() const { return nodes_; }
  /// The layers that evaluate() computes, for export: batch norms are folded into the convolutions
  /// before them. Valid until the next forward pass or change of weights.
  const std::vector<Node>& folded();

 private:
  Program& program(std::size_t count, bool training, std::size_t slot);

  Weights all_; ///< of the whole network's layers
  std::vector<Weight*> weights_, state_;
  bool begins_, ends_;
  Compute compute_;
  std::vector<Node> nodes_;
  std::optional<Folded> folded_;
  std::uint64_t version_ = 1, folded_version_ = 0; ///< of the values of the weights
  bool stale_ = true;                              ///< the folded weights are out of date
  Before before_;
  bool weights_stay_ = true;
  std::map<std::tuple<std::size_t, bool, std::size_t>, std::unique_ptr<Program>> programs_;
  std::vector<Program*> passed_; ///< the program of each slot's last forward pass
};

} // namespace rondo::training
