// Properties of each element type: one row each, which everything else reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "rondo/export.h"

namespace rondo {

/// Element type of a buffer. 16- and 8-bit floats are reduced in fp32 and rounded to nearest even.
enum class DataType : std::uint8_t {
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,    ///< IEEE 754 binary16
  bfloat16,   ///< upper half of binary32
  float8e4m3, ///< OCP E4M3 (finite, 0x7f is NaN; overflow saturates to 448)
  float8e5m2, ///< OCP E5M2 (IEEE-like, with infinities)
  float32,
  float64,
};

struct DataTypeTraits {
  /// Widths in bits; 0 for integers. A float has a sign bit besides.
  struct Format {
    int exponent = 0, mantissa = 0;
    bool infinity = false; ///< without: the code of all ones is NaN, and overflow saturates
  };
  enum class Kind : std::uint8_t { signed_integer, unsigned_integer, floating };

  DataType type{};
  std::size_t bytes = 0;
  Kind kind{};
  std::string_view name;                   ///< as nccl-tests names it
  std::array<std::string_view, 4> aliases; ///< accepted in place of the name; some are empty
  std::string_view numpy;                  ///< in NumPy, or in ml_dtypes where NumPy lacks it
  std::string_view torch;                  ///< at::ScalarType, as c10::toString() spells it
  int nccl = -1;                           ///< ncclDataType_t; -1: NCCL lacks it
  int dlpack = 0;                          ///< DLDataTypeCode
  Format format{};

  constexpr bool isFloat() const { return kind == Kind::floating; }
  constexpr bool isSigned() const { return kind != Kind::unsigned_integer; }
  constexpr bool isSignedInteger() const { return kind == Kind::signed_integer; }
};

/// One row per type, in the order of the enumeration: integers first.
inline constexpr auto kDataTypeTraits = [] {
  using T = DataType;
  constexpr auto i = DataTypeTraits::Kind::signed_integer;
  constexpr auto u = DataTypeTraits::Kind::unsigned_integer;
  constexpr auto f = DataTypeTraits::Kind::floating;
  return std::to_array<DataTypeTraits>({
      // type, bytes, kind, name, aliases, numpy, torch, nccl, dlpack, format
      {T::int8, 1, i, "int8", {"char"}, "int8", "Char", 0, 0, {}},
      {T::uint8, 1, u, "uint8", {"byte"}, "uint8", "Byte", 1, 1, {}},
      {T::int16, 2, i, "int16", {}, "int16", "Short", -1, 0, {}},
      {T::uint16, 2, u, "uint16", {}, "uint16", "UInt16", -1, 1, {}},
      {T::int32, 4, i, "int32", {"int"}, "int32", "Int", 2, 0, {}},
      {T::uint32, 4, u, "uint32", {}, "uint32", "UInt32", 3, 1, {}},
      {T::int64, 8, i, "int64", {}, "int64", "Long", 4, 0, {}},
      {T::uint64, 8, u, "uint64", {}, "uint64", "UInt64", 5, 1, {}},
      {T::float16, 2, f, "float16", {"half", "fp16"}, "float16", "Half", 6, 2, {5, 10, true}},
      {T::bfloat16, 2, f, "bfloat16", {"bf16"}, "bfloat16", "BFloat16", 9, 4, {8, 7, true}},
      {T::float8e4m3,
       1,
       f,
       "fp8_e4m3",
       {"e4m3", "f8e4m3", "float8e4m3", "float8_e4m3"},
       "float8_e4m3fn",
       "Float8_e4m3fn",
       10,
       10,
       {4, 3, false}},
      {T::float8e5m2,
       1,
       f,
       "fp8_e5m2",
       {"e5m2", "f8e5m2", "float8e5m2", "float8_e5m2"},
       "float8_e5m2",
       "Float8_e5m2",
       11,
       12,
       {5, 2, true}},
      {T::float32, 4, f, "float", {"float32", "fp32"}, "float32", "Float", 7, 2, {8, 23, true}},
      {T::float64, 8, f, "double", {"float64", "fp64"}, "float64", "Double", 8, 2, {11, 52, true}},
  });
}();

inline constexpr std::size_t kDataTypeCount = kDataTypeTraits.size();

constexpr const DataTypeTraits& traits(DataType type) {
  return kDataTypeTraits[static_cast<std::size_t>(type)];
}

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
    for (std::size_t i = 0; i < kDataTypeCount; ++i) sizes.of[i] = kDataTypeTraits[i].bytes;
    return sizes;
  }();
  return kSizes.of[static_cast<std::size_t>(type)];
}

constexpr bool isFloat(DataType type) { return type >= DataType::float16; }

static_assert(
    [] {
      for (const DataType type : kDataTypes)
        if (traits(type).type != type || traits(type).isFloat() != isFloat(type)) return false;
      return true;
    }(),
    "the rows are not in the order of the enumeration, or a float stands before an integer");

/// The integer type of this size, if there is one.
constexpr std::optional<DataType> integerType(bool is_signed, std::size_t bytes) {
  for (const DataTypeTraits& row : kDataTypeTraits)
    if (!row.isFloat() && row.isSigned() == is_signed && row.bytes == bytes) return row.type;
  return std::nullopt;
}

/// "int8", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "float", "double", ..., as nccl-tests
/// names them.
RONDO_API std::string_view name(DataType type);
/// Inverse of name(); also takes "half", "float32", "fp16", "bf16" and the like.
/// Throws Error(invalid_argument) that lists the valid names.
RONDO_API DataType parseDataType(std::string_view text);

} // namespace rondo
