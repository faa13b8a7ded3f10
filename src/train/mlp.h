// A multi-layer perceptron: ReLU between dense layers, softmax cross-entropy behind the last.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "train/aligned.h"
#include "train/product.h"
#include "train/random.h"

namespace rondo::training {

/// Parameters and gradients are one flat array each: per layer weights [in x out], then biases
/// [out]. `Real` is float; tests check the arithmetic with double. One thread at a time.
template <class Real>
class Mlp {
 public:
  /// widths: inputs, hidden layers, classes.
  explicit Mlp(const std::vector<std::size_t>& widths) {
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
      layers_.push_back({widths[l], widths[l + 1], parameters_});
      parameters_ += (widths[l] + 1) * widths[l + 1];
    }
    outputs_.resize(layers_.size());
  }

  std::size_t parameterCount() const { return parameters_; }
  std::size_t inputs() const { return layers_.front().in; }
  std::size_t classes() const { return layers_.back().out; }

  /// He's variance 2 / in, drawn evenly, so that no machine's logarithm has a say; biases are zero.
  AlignedVector<Real> initialParameters(std::uint64_t seed) const {
    AlignedVector<Real> parameters(parameters_);
    Random random(seed);
    for (const Layer& layer : layers_) {
      const double limit = std::sqrt(6.0 / static_cast<double>(layer.in));
      std::generate_n(parameters.begin() + static_cast<std::ptrdiff_t>(layer.offset),
                      layer.in * layer.out,
                      [&] { return static_cast<Real>(limit * random.symmetric()); });
    }
    return parameters;
  }

  /// Shapes of what is learnt, in the order in which it lies in the array: per layer weights [in,
  /// out] and biases [out].
  std::vector<std::vector<std::size_t>> shapes() const {
    std::vector<std::vector<std::size_t>> all;
    for (const Layer& layer : layers_) {
      all.push_back({layer.in, layer.out});
      all.push_back({layer.out});
    }
    return all;
  }

  /// images [count x inputs], labels [count]: gives the sum of the samples' losses.
  Real loss(const Real* parameters, const Real* images, const std::uint8_t* labels,
            std::size_t count) {
    forward(parameters, images, count);
    return lossInPlace(labels, count);
  }

  /// Behind loss() with the same arguments: writes the gradient of that sum to gradients(i), one of
  /// each of shapes(), and calls ready(i) as soon as it stands there, the last layer's first.
  template <class Gradients, class Ready>
  void backward(const Real* parameters, const Real* images, std::size_t count,
                const Gradients& gradients, const Ready& ready) {
    for (std::size_t l = layers_.size(); l-- > 0;) {
      const Layer& layer = layers_[l];
      const Real* in = l == 0 ? images : outputs_[l - 1].data();
      const Real* delta = outputs_[l].data(); // of the layer's sums, [count x out]
      Real* biases = gradients(2 * l + 1);
      std::fill_n(biases, layer.out, Real(0));
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t o = 0; o < layer.out; ++o) biases[o] += delta[i * layer.out + o];
      ready(2 * l + 1);
      multiply(
          Product{.rows = layer.in, .columns = layer.out, .inner = count, .a_transposed = true}, in,
          delta, gradients(2 * l));
      ready(2 * l);
      if (l == 0) break;
      back_.resize(count * layer.in);
      multiply(
          Product{.rows = count, .columns = layer.in, .inner = layer.out, .b_transposed = true},
          delta, parameters + layer.offset, back_.data());
      for (std::size_t i = 0; i < count * layer.in; ++i)
        if (!(in[i] > 0)) back_[i] = 0;
      outputs_[l - 1].swap(back_);
    }
  }

  /// How many of the images are put into their class.
  std::size_t countCorrect(const Real* parameters, const Real* images, const std::uint8_t* labels,
                           std::size_t count) {
    forward(parameters, images, count);
    std::size_t correct = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Real* row = outputs_.back().data() + i * classes();
      if (std::max_element(row, row + classes()) - row == labels[i]) ++correct;
    }
    return correct;
  }

 private:
  struct Layer {
    std::size_t in, out, offset;
    std::size_t bias() const { return offset + in * out; }
  };

  /// Fills outputs_: after ReLU, but for the last layer.
  void forward(const Real* parameters, const Real* images, std::size_t count) {
    const Real* in = images;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const Layer& layer = layers_[l];
      outputs_[l].resize(count * layer.out);
      Real* out = outputs_[l].data();
      multiply(Product{.rows = count, .columns = layer.out, .inner = layer.in}, in,
               parameters + layer.offset, out);
      const Real* biases = parameters + layer.bias();
      const bool last = l + 1 == layers_.size();
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t o = 0; o < layer.out; ++o) {
          const Real sum = out[i * layer.out + o] + biases[o];
          out[i * layer.out + o] = last || sum > 0 ? sum : Real(0);
        }
      in = out;
    }
  }

  /// Turns the last layer's sums into their gradient: softmax minus one for the sample's class.
  Real lossInPlace(const std::uint8_t* labels, std::size_t count) {
    Real loss = 0;
    for (std::size_t i = 0; i < count; ++i) {
      Real* row = outputs_.back().data() + i * classes();
      const Real highest = *std::max_element(row, row + classes());
      const Real wanted = row[labels[i]] - highest;
      Real sum = 0;
      for (std::size_t o = 0; o < classes(); ++o) sum += row[o] = std::exp(row[o] - highest);
      for (std::size_t o = 0; o < classes(); ++o) row[o] /= sum;
      row[labels[i]] -= 1;
      loss += std::log(sum) - wanted;
    }
    return loss;
  }

  std::vector<Layer> layers_;
  std::size_t parameters_ = 0;
  std::vector<AlignedVector<Real>> outputs_; ///< per layer; on the way back, gradients of its sums
  AlignedVector<Real> back_;
};

} // namespace rondo::training
