// DataType: the element types of buffers, their sizes and names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rondo/export.h"

namespace rondo {

/// Element type of a buffer: int8 to int64, uint8 to uint64, float32, float64, and these floats,
/// which are reduced in fp32 and rounded to nearest even:
///
///     float16       IEEE 754 binary16
///     bfloat16      upper half of binary32
///     float8e4m3    OCP E4M3 (finite, 0x7f is NaN; overflow saturates to 448)
///     float8e5m2    OCP E5M2 (IEEE-like, with infinities)
enum class DataType : std::uint8_t {
#define RONDO_DATA_TYPE(type, ...) type,
#include "rondo/detail/data_types.def"
#undef RONDO_DATA_TYPE
};

} // namespace rondo

#include "rondo/detail/data_type_traits.h"

namespace rondo {

inline constexpr std::size_t kDataTypeCount = detail::kDataTypeTraits.size();

/// Every element type once; integers first.
inline constexpr auto kDataTypes = [] {
  std::array<DataType, kDataTypeCount> all{};
  for (std::size_t i = 0; i < kDataTypeCount; ++i) all[i] = static_cast<DataType>(i);
  return all;
}();

/// Bytes of one element.
constexpr std::size_t sizeOf(DataType type) {
  // A small table of its own: calls look this up, and kernels call it on the device.
  struct Sizes {
    std::size_t of[kDataTypeCount];
  };
  constexpr Sizes kSizes = [] {
    Sizes sizes{};
    for (std::size_t i = 0; i < kDataTypeCount; ++i) sizes.of[i] = detail::kDataTypeTraits[i].bytes;
    return sizes;
  }();
  return kSizes.of[static_cast<std::size_t>(type)];
}

constexpr bool isFloat(DataType type) { return type >= DataType::float16; }
static_assert(
    [] {
      for (const DataType type : kDataTypes)
        if (traits(type).isFloat() != isFloat(type)) return false;
      return true;
    }(),
    "an integer's row follows that of float16");

/// "int8", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "float", "double", ..., as nccl-tests
/// names them.
RONDO_API std::string_view name(DataType type);
/// Inverse of name(); also takes "half", "float32", "fp16", "bf16" and the like.
/// Throws Error(invalid_argument) that lists the valid names.
RONDO_API DataType parseDataType(std::string_view text);

} // namespace rondo
