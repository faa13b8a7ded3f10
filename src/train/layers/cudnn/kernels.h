// What the layers need and no library has: a value of each on one thread, on any device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace rondo::training::cudnn {

/// to = from, but for what is dropped, scaled.
struct DropoutCall {
  const float* from;
  float* to;
  const std::uint64_t* starts; ///< [samples], where each one's random numbers begin
  std::size_t samples, size;   ///< size: values of a sample
  std::uint64_t limit;         ///< numbers of 32 bits below this drop
  float kept;                  ///< what the others are multiplied by
};

/// Of [samples x classes] values: each sample's loss, whether it is right, and the gradient.
struct LossCall {
  const float* from;
  float* gradient;
  const std::uint8_t* labels;
  double* losses;
  std::uint8_t* correct;
  std::size_t samples, classes;
};

/// *found = 1 if a value is not finite.
struct FiniteCall {
  const float* values;
  std::size_t count;
  std::uint8_t* found;
};

/// Of the values of each channel in [samples x channels x places]: the sum, and that of their
/// products with the other values at the same places, each in kSumParts parts. Doubles, in which
/// products of floats are exact.
struct ChannelSumsCall {
  const float *values, *times;
  double* parts; ///< [2 x channels x kSumParts]
  std::size_t samples, channels, places;
};
inline constexpr std::size_t kSumParts = 64;

/// Adds the parts up, in their order: so results are the same from run to run.
struct JoinCall {
  const double* parts;
  double* sums;
  std::size_t count;
};

struct Affine {
  float gradient, value, mean, shift;
};
/// to = a gradient + b (value - mean) + shift, by each channel's numbers.
struct AffineCall {
  const float* gradients; ///< null: none, and a is not asked
  const float* values;
  const Affine* by; ///< [channels]
  float* to;
  std::size_t samples, channels, places;
};

/// Put the work on the stream. Throw Error(system) if it cannot be launched.
void run(const DropoutCall& call, cudaStream_t stream);
void run(const LossCall& call, cudaStream_t stream);
void run(const FiniteCall& call, cudaStream_t stream);
void run(const ChannelSumsCall& call, cudaStream_t stream);
void run(const JoinCall& call, cudaStream_t stream);
void run(const AffineCall& call, cudaStream_t stream);

} // namespace rondo::training::cudnn
