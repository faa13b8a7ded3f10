// The weights of a linear layer.
#include <cmath>

#include "rondo/error.h"
#include "train/layers/values.h"

namespace rondo::training {

SampleShape Linear::output(const SampleShape& in) const {
  if (in.height != 1 || in.width != 1) {
    throw Error(ErrorCode::invalid_argument,
                "a linear layer needs features of 1 x 1 places, not " + std::to_string(in.height) +
                    " x " + std::to_string(in.width) + ": put a flatten layer before it");
  }
  return {outputs, 1, 1};
}

Learned Linear::learned(const SampleShape& in) const {
  // He's initialisation (variance 2 / inputs) from a uniform distribution: it needs no logarithm,
  // whose last bit could differ between machines.
  const double spread = std::sqrt(6.0 / static_cast<double>(in.channels));
  return {{{.name = "weight", .shape = {outputs, in.channels}, .decays = true, .spread = spread},
           {.name = "bias", .shape = {outputs}}},
          {}};
}

} // namespace rondo::training
