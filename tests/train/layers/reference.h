// A reference for layers, in plain loops and double.
#pragma once

#include <cstdint>
#include <vector>

#include "train/layers/node.h"

namespace rondo::test {

using Numbers = std::vector<double>;

/// The values of all samples, sample by sample.
struct Values {
  std::size_t count;
  training::SampleShape shape;
  Numbers data;

  double& at(std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
    return data[((n * shape.channels + c) * shape.height + y) * shape.width + x];
  }
  double at(std::size_t n, std::size_t c, std::size_t y, std::size_t x) const {
    return const_cast<Values*>(this)->at(n, c, y, x);
  }
};

/// A network like training::Network, with weights by number.
class Reference {
 public:
  Reference(const training::LayerValues& layers, const training::SampleShape& in);

  /// Sum over the samples.
  double loss(const Values& in, const std::vector<std::uint8_t>& labels) const;

  std::vector<Numbers> weights;
  /// Running statistics. If there are any, batch norm uses them, as in evaluation.
  std::vector<Numbers> state;

 private:
  training::Weights places_;
  std::vector<training::Node> nodes_;
};

} // namespace rondo::test
