// Scaling and division of integers. Scalar code: few calls need it, and those scale each element
// only once, not in each step.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cpu/families.h"

namespace rondo::kernels {
namespace {

/// Converts toward zero and saturates; NaN gives zero.
template <typename T, typename F>
T saturate(F value) {
  // One more than the largest T: a power of two, which F represents exactly. F may round max().
  constexpr F kEnd = F(std::numeric_limits<T>::max() / 2 + 1) * F(2);
  constexpr F kBegin = F(std::numeric_limits<T>::min());
  if (value >= kEnd) return std::numeric_limits<T>::max();
  if (value <= kBegin) return std::numeric_limits<T>::min();
  return value == value ? static_cast<T>(value) : T(0);
}

template <typename T>
void scaleIntegers(void* output, const void* input, std::size_t count, double factor) {
  using F = std::conditional_t<sizeof(T) <= 2, float, double>;
  // memcpy allows any alignment, and compiles to plain loads and stores.
  auto* out = static_cast<std::byte*>(output);
  const auto* in = static_cast<const std::byte*>(input);
  for (std::size_t i = 0; i < count * sizeof(T); i += sizeof(T)) {
    T value;
    std::memcpy(&value, in + i, sizeof(T));
    value = saturate<T>(static_cast<F>(value) * static_cast<F>(factor));
    std::memcpy(out + i, &value, sizeof(T));
  }
}

template <typename T>
void divide(void* data, std::size_t count, long long divisor) {
  auto* bytes = static_cast<std::byte*>(data);
  for (std::size_t i = 0; i < count * sizeof(T); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes + i, sizeof(T));
    if constexpr (std::is_signed_v<T>) value = static_cast<T>(value / divisor);
    else value = static_cast<T>(value / static_cast<unsigned long long>(divisor));
    std::memcpy(bytes + i, &value, sizeof(T));
  }
}

} // namespace

ScaleFunction integerScale(DataType type) {
  switch (type) {
    case DataType::int8: return scaleIntegers<std::int8_t>;
    case DataType::uint8: return scaleIntegers<std::uint8_t>;
    case DataType::int16: return scaleIntegers<std::int16_t>;
    case DataType::uint16: return scaleIntegers<std::uint16_t>;
    case DataType::int32: return scaleIntegers<std::int32_t>;
    case DataType::uint32: return scaleIntegers<std::uint32_t>;
    case DataType::int64: return scaleIntegers<std::int64_t>;
    case DataType::uint64: return scaleIntegers<std::uint64_t>;
    default: return nullptr;
  }
}

void divideIntegers(void* data, std::size_t count, DataType type, long long divisor) {
  assert(!isFloat(type));
  assert(divisor > 0);
  switch (type) {
    case DataType::int8: return divide<std::int8_t>(data, count, divisor);
    case DataType::uint8: return divide<std::uint8_t>(data, count, divisor);
    case DataType::int16: return divide<std::int16_t>(data, count, divisor);
    case DataType::uint16: return divide<std::uint16_t>(data, count, divisor);
    case DataType::int32: return divide<std::int32_t>(data, count, divisor);
    case DataType::uint32: return divide<std::uint32_t>(data, count, divisor);
    case DataType::int64: return divide<std::int64_t>(data, count, divisor);
    case DataType::uint64: return divide<std::uint64_t>(data, count, divisor);
    default: return;
  }
}

} // namespace rondo::kernels
