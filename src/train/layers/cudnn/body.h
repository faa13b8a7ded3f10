// The work of one thread of each kernel: the same source runs on the device and, in tests, on the
// host.
#pragma once

#include <cmath>

#include "rondo/detail/hash.h"
#include "train/layers/cudnn/kernels.h"

#ifdef __CUDACC__
#define RONDO_LAYER_BODY __host__ __device__ inline
#else
#define RONDO_LAYER_BODY inline
#endif

namespace rondo::training::cudnn {

RONDO_LAYER_BODY std::size_t items(const DropoutCall& call) { return call.samples * call.size; }
RONDO_LAYER_BODY std::size_t items(const LossCall& call) { return call.samples; }
RONDO_LAYER_BODY std::size_t items(const FiniteCall& call) { return call.count; }
RONDO_LAYER_BODY std::size_t items(const ChannelSumsCall& call) {
  return call.channels * kSumParts;
}
RONDO_LAYER_BODY std::size_t items(const JoinCall& call) { return call.count; }
RONDO_LAYER_BODY std::size_t items(const AffineCall& call) {
  return call.samples * call.channels * call.places;
}

/// Computes the sample's i-th random number directly, because the state of Random advances by a
/// constant. So no thread depends on another.
RONDO_LAYER_BODY void runOne(const DropoutCall& call, std::size_t item) {
  const std::size_t sample = item / call.size, i = item % call.size;
  const std::uint64_t drawn = detail::finish(call.starts[sample] + (i + 1) * detail::kGoldenRatio);
  call.to[item] = (drawn >> 32) < call.limit ? 0.0F : call.from[item] * call.kept;
}

/// One thread handles a sample and sums its few classes in order, as the CPU does.
RONDO_LAYER_BODY void runOne(const LossCall& call, std::size_t sample) {
  const float* const row = call.from + sample * call.classes;
  float* const to = call.gradient + sample * call.classes;
  const std::size_t label = call.labels[sample];
  std::size_t highest = 0;
  for (std::size_t c = 1; c < call.classes; ++c)
    if (row[c] > row[highest]) highest = c;
  float sum = 0;
  for (std::size_t c = 0; c < call.classes; ++c) sum += to[c] = expf(row[c] - row[highest]);
  for (std::size_t c = 0; c < call.classes; ++c) to[c] /= sum;
  to[label] -= 1;
  call.losses[sample] = static_cast<double>(logf(sum) - (row[label] - row[highest]));
  call.correct[sample] = highest == label ? 1 : 0;
}

/// All threads that find a value write the same.
RONDO_LAYER_BODY void runOne(const FiniteCall& call, std::size_t item) {
  const float value = call.values[item];
  if (!(value - value == 0)) *call.found = 1;
}

/// Neighbouring threads read neighbouring places.
RONDO_LAYER_BODY void runOne(const ChannelSumsCall& call, std::size_t item) {
  const std::size_t channel = item / kSumParts, part = item % kSumParts;
  double sum = 0, products = 0;
  for (std::size_t i = part; i < call.samples * call.places; i += kSumParts) {
    const std::size_t sample = i / call.places, place = i % call.places;
    const std::size_t at = (sample * call.channels + channel) * call.places + place;
    const auto value = static_cast<double>(call.values[at]);
    sum += value;
    products += value * static_cast<double>(call.times[at]);
  }
  call.parts[item] = sum;
  call.parts[items(call) + item] = products;
}

RONDO_LAYER_BODY void runOne(const JoinCall& call, std::size_t item) {
  double sum = 0;
  for (std::size_t i = 0; i < kSumParts; ++i) sum += call.parts[item * kSumParts + i];
  call.sums[item] = sum;
}

RONDO_LAYER_BODY void runOne(const AffineCall& call, std::size_t item) {
  const Affine& by = call.by[item / call.places % call.channels];
  const float scaled = call.gradients ? by.gradient * call.gradients[item] : 0.0F;
  call.to[item] = scaled + (by.value * (call.values[item] - by.mean) + by.shift);
}

} // namespace rondo::training::cudnn
