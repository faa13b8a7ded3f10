// The weights of a convolution, and the output shapes of windows.
#include <cmath>

#include "rondo/error.h"
#include "train/layers/values.h"

namespace rondo::training {

SampleShape Window::over(const SampleShape& in) const {
  const auto places = [this](std::size_t side) {
    return side + 2 * padding < kernel ? 0 : (side + 2 * padding - kernel) / stride + 1;
  };
  if (kernel == 0 || stride == 0 || padding >= kernel || places(in.height) == 0 ||
      places(in.width) == 0) {
    throw Error(ErrorCode::invalid_argument,
                "a window of " + std::to_string(kernel) + " x " + std::to_string(kernel) +
                    ", stride " + std::to_string(stride) + ", padding " + std::to_string(padding) +
                    ", does not fit " + std::to_string(in.height) + " x " +
                    std::to_string(in.width) + " places");
  }
  return {in.channels, places(in.height), places(in.width)};
}

SampleShape Convolution::output(const SampleShape& in) const {
  SampleShape out = window.over(in);
  out.channels = channels;
  return out;
}

Learned Convolution::learned(const SampleShape& in) const {
  const std::size_t kernel = window.kernel, inputs = in.channels * kernel * kernel;
  Learned result{{{.name = "weight",
                   .shape = {channels, in.channels, kernel, kernel},
                   .decays = true,
                   .spread = std::sqrt(6.0 / static_cast<double>(inputs))}},
                 {}};
  if (bias) result.weights.push_back({.name = "bias", .shape = {channels}});
  return result;
}

} // namespace rondo::training
