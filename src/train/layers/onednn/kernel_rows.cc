// Copies the input's rows, and zeros where the kernel is outside of the picture.
#include "train/layers/onednn/kernel_rows.h"

#include <algorithm>

namespace rondo::training::onednn {

ConvolutionSizes rowsAsChannels(const ConvolutionSizes& sizes) {
  const Dims &in = sizes.in, &filter = sizes.filter;
  return {.in = {in[0], filter[2], sizes.out[2], in[3]},
          .filter = {filter[0], filter[2], 1, filter[3]},
          .out = sizes.out,
          .strides = {1, sizes.strides[1]},
          .padding = {0, sizes.padding[1]}};
}

void copyRows(const float* in, const ConvolutionSizes& sizes, float* to) {
  const auto count = sizes.in[0], height = sizes.in[2], width = sizes.in[3];
  const auto rows = sizes.filter[2], out_height = sizes.out[2];
  for (Dims::value_type sample = 0; sample < count; ++sample, in += height * width)
    for (Dims::value_type row = 0; row < rows; ++row)
      for (Dims::value_type y = 0; y < out_height; ++y, to += width) {
        const auto from = y * sizes.strides[0] + row - sizes.padding[0];
        if (from < 0 || from >= height) std::fill_n(to, width, 0.0F);
        else std::copy_n(in + from * width, width, to);
      }
}

} // namespace rondo::training::onednn
