// Building blocks of residual networks.
#pragma once

#include <iterator>

#include "train/layers/values.h"

namespace rondo::training::models {

inline void append(LayerValues& list, const LayerValues& more) {
  list.insert(list.end(), more.begin(), more.end());
}

/// A convolution with padding that keeps the size, apart from the stride. Batch norm provides the
/// bias.
inline LayerValues normed(std::size_t channels, std::size_t kernel, std::size_t stride = 1) {
  return {Convolution{channels, {.kernel = kernel, .stride = stride, .padding = kernel / 2}, false},
          BatchNorm{}};
}

/// The sum of the body and its input. The input is projected if its shape changes.
inline LayerValues residual(const LayerValues& body, std::size_t channels, std::size_t stride,
                            bool projected) {
  return {Residual{body, projected ? normed(channels, 1, stride) : LayerValues{}}, Relu{}};
}

/// The mean over all positions, then one linear layer.
inline LayerValues head(std::size_t classes) {
  return {GlobalAveragePool{}, Flatten{}, Linear{classes}};
}

} // namespace rondo::training::models
