// Selects the largest gradients with std::nth_element and keeps the rest as residual.
#include "gradients/codecs/top_k.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>

namespace rondo {

namespace gradients {

namespace {

/// Orders like the magnitudes: infinity is above all numbers, NaN above infinity.
std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU; }

} // namespace

TopK::TopK(double density) : density_(density) {
  if (!(density > 0 && density <= 1))
    throw Error(ErrorCode::invalid_argument,
                "topKCodec: density " + std::to_string(density) + " is not in (0, 1]");
}

std::size_t TopK::sent(std::size_t count) const {
  return static_cast<std::size_t>(std::ceil(density_ * static_cast<double>(count)));
}

std::size_t TopK::bytes(std::size_t count) const {
  return sent(count) * (sizeof(std::uint32_t) + sizeof(float));
}

/// Among equal magnitudes the lower index is sent first.
void TopK::encode(std::span<const float> gradients, float factor, std::span<float> kept,
                  void* message) {
  for (std::size_t i = 0; i < gradients.size(); ++i) kept[i] += gradients[i] * factor;
  order_.resize(gradients.size());
  std::iota(order_.begin(), order_.end(), 0U);
  const auto larger = [&kept](std::uint32_t a, std::uint32_t b) {
    const std::uint32_t left = magnitude(kept[a]), right = magnitude(kept[b]);
    return left > right || (left == right && a < b);
  };
  const std::size_t count = sent(gradients.size());
  const auto end = order_.begin() + static_cast<std::ptrdiff_t>(count);
  if (end != order_.end()) std::nth_element(order_.begin(), end, order_.end(), larger);
  auto* const indices = static_cast<std::uint32_t*>(message);
  auto* const values = reinterpret_cast<float*>(indices + count);
  std::copy(order_.begin(), end, indices);
  std::sort(indices, indices + count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = kept[indices[i]];
    kept[indices[i]] = 0;
  }
}

void TopK::decode(const void* message, std::span<float> gradients) const {
  std::fill(gradients.begin(), gradients.end(), 0.0F);
  add(message, 1, gradients);
}

void TopK::add(const void* message, float factor, std::span<float> gradients) const {
  const std::size_t count = sent(gradients.size());
  const auto* const indices = static_cast<const std::uint32_t*>(message);
  const auto* const values = reinterpret_cast<const float*>(indices + count);
  for (std::size_t i = 0; i < count; ++i) gradients[indices[i]] += factor * values[i];
}

} // namespace gradients

GradientCodec::~GradientCodec() = default;

std::unique_ptr<GradientCodec> topKCodec(double density) {
  return std::make_unique<gradients::TopK>(density);
}

} // namespace rondo
