// Properties of element types: the rows of data_types.def. Not part of the public API. Included
// only by rondo/data_types.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rondo/data_types.h"

namespace rondo::detail {

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

inline constexpr auto kDataTypeTraits = [] {
  using T = DataType;
  constexpr auto i = DataTypeTraits::Kind::signed_integer;
  constexpr auto u = DataTypeTraits::Kind::unsigned_integer;
  constexpr auto f = DataTypeTraits::Kind::floating;
  return std::to_array<DataTypeTraits>({
#define RONDO_DATA_TYPE(type, ...) {T::type, __VA_ARGS__},
#include "rondo/detail/data_types.def"
#undef RONDO_DATA_TYPE
  });
}();

/// Returns make(c) with `type`, a float of kBytes bytes, as integral constant c.
template <std::size_t kBytes, class Made, class Make>
constexpr Made withFloat(DataType type, const Make& make) {
  Made made{};
  const auto try_one = [&]<std::size_t kRow>(std::integral_constant<std::size_t, kRow>) {
    constexpr const DataTypeTraits& kType = kDataTypeTraits[kRow];
    if constexpr (kType.isFloat() && kType.bytes == kBytes)
      if (kType.type == type) made = make(std::integral_constant<DataType, kType.type>());
  };
  [&]<std::size_t... kRows>(std::index_sequence<kRows...>) {
    (try_one(std::integral_constant<std::size_t, kRows>()), ...);
  }
  (std::make_index_sequence<kDataTypeTraits.size()>());
  return made;
}

/// The integer type of this size, if there is one.
constexpr std::optional<DataType> integerType(bool is_signed, std::size_t bytes) {
  for (const DataTypeTraits& row : kDataTypeTraits)
    if (!row.isFloat() && row.isSigned() == is_signed && row.bytes == bytes) return row.type;
  return std::nullopt;
}

} // namespace rondo::detail

namespace rondo {

constexpr const detail::DataTypeTraits& traits(DataType type) {
  return detail::kDataTypeTraits[static_cast<std::size_t>(type)];
}

} // namespace rondo
