// What residual networks are made of.
#pragma once

#include <iterator>

#include "train/layers/values.h"

namespace rondo::training::models {

inline void append(LayerValues& list, const LayerValues& more) {
  list.insert(list.end(), more.begin(), more.end());
}

/// A convolution whose bias is batch norm's, of the same size but for the stride.
inline LayerValues normed(std::size_t channels, std::size_t kernel, std::size_t stride = 1) {
  return {Convolution{channels, {.kernel = kernel, .stride = stride, .padding = kernel / 2}, false},
          BatchNorm{}};
}

/// The body's sum with its input, which is projected where its shape changes.
inline LayerValues residual(const LayerValues& body, std::size_t channels, std::size_t stride,
                            bool projected) {
  return {Residual{body, projected ? normed(channels, 1, stride) : LayerValues{}}, Relu{}};
}

/// The mean of all places, and one linear layer.
inline LayerValues head(std::size_t classes) {
  return {GlobalAveragePool{}, Flatten{}, Linear{classes}};
}

} // namespace rondo::training::models
