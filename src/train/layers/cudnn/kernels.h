// Kernels for operations that CUDA's libraries lack. One thread computes each value. Tests run the
// same source on the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace rondo::training::cudnn {

/// Dropout: to = from * kept, or 0 for dropped values.
struct DropoutCall {
  const float* from;
  float* to;
  const std::uint64_t* starts; ///< [samples], start of each sample's random numbers
  std::size_t samples, size;   ///< size: values of one sample
  std::uint64_t limit;         ///< a value is dropped if its 32-bit random number is below this
  float kept;                  ///< factor of the other values
};

/// For [samples x classes] values: the loss of each sample, whether its class is right, and the
/// gradient.
struct LossCall {
  const float* from;
  float* gradient;
  const std::uint8_t* labels;
  double* losses;
  std::uint8_t* correct;
  std::size_t samples, classes;
};

/// Sets *found to 1 if a value is not finite.
struct FiniteCall {
  const float* values;
  std::size_t count;
  std::uint8_t* found;
};

/// For each channel of [samples x channels x places] values: their sum, and the sum of their
/// products with `times` at the same places, each in kSumParts partial sums. In doubles, in which
/// products of floats are exact.
struct ChannelSumsCall {
  const float *values, *times;
  double* parts; ///< [2 x channels x kSumParts]
  std::size_t samples, channels, places;
};
inline constexpr std::size_t kSumParts = 64;

/// Adds the partial sums in order, so that results are the same in every run.
struct JoinCall {
  const double* parts;
  double* sums;
  std::size_t count;
};

struct Affine {
  float gradient, value, mean, shift;
};
/// to = a gradient + b (value - mean) + shift, with the numbers of each channel.
struct AffineCall {
  const float* gradients; ///< null: there are none, and a is not used
  const float* values;
  const Affine* by; ///< [channels]
  float* to;
  std::size_t samples, channels, places;
};

/// Queue the work on the stream. Throw Error(system) if it cannot be launched.
void run(const DropoutCall& call, cudaStream_t stream);
void run(const LossCall& call, cudaStream_t stream);
void run(const FiniteCall& call, cudaStream_t stream);
void run(const ChannelSumsCall& call, cudaStream_t stream);
void run(const JoinCall& call, cudaStream_t stream);
void run(const AffineCall& call, cudaStream_t stream);

} // namespace rondo::training::cudnn
