// Makes the rows of a convolution's kernel input channels, for pictures of one channel.
#pragma once

#include "train/layers/onednn/site.h"

namespace rondo::training::onednn {

/// The sizes of a convolution: pictures are [count x channels x height x width], the filter is
/// [out channels x in channels x rows x columns].
struct ConvolutionSizes {
  Dims in, filter, out, strides, padding;
};

/// oneDNN's AVX2 kernels for the weights' gradient compute blocks of 8 input channels, so a grey
/// picture costs as much as one with 8. This form has one channel for each row of the kernel, and a
/// kernel of one row. 64 samples, 1 -> 32 channels, 3 x 3, on 28 x 28: 1.0 ms instead of 4.1 (one
/// core of an EPYC 9004, limited to AVX2).
///
/// Channel r of the input has, at (y, x), the value that row r of the kernel meets for the output's
/// row y. The filter [out x 1 x rows x columns] becomes [out x rows x 1 x columns]: the same values
/// in the same order.
ConvolutionSizes rowsAsChannels(const ConvolutionSizes& sizes);

/// Copies a plain input of one channel to the plain input of rowsAsChannels(sizes).
void copyRows(const float* in, const ConvolutionSizes& sizes, float* to);

} // namespace rondo::training::onednn
