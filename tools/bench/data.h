// Pattern: the benchmark's inputs and expected results, which are exact in any order of reduction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rondo/types.h"

namespace rondo::tools {

/// Inputs of all ranks for one (data type, operator, rank count), and their reduction.
///
/// Element i of rank r's input depends on r and on i modulo a prime, so that a wrong rank or a
/// shifted chunk is noticed. For reductions the values are chosen so that every partial result,
/// over any ranks in any order, is exactly representable in the type. So the check is bitwise.
///   sum, premulsum  small integers (twice them for premulsum); all together at most the largest
///                   integer up to which the type is exact (8 for fp8_e5m2). Integers: sums wrap
///   avg             what 1/ranks scales without rounding, else few equal powers of two
///   prod            powers of two, at most four per element not 1 or -1. Integers: odd, wrapping
///   min, max        any integer that is exact
///   band, bor, bxor bits, mostly set, mostly clear, half set
/// Collectives that do not reduce get random bytes.
class Pattern {
 public:
  static constexpr std::size_t kPeriod = 10007;

  /// For a collective that reduces.
  Pattern(DataType type, ReduceOp op, int ranks);
  /// For a collective that only moves data.
  Pattern(DataType type, int ranks);

  /// Writes elements [first, first + count) of the rank's input.
  void fill(void* to, int rank, std::size_t first, std::size_t count) const;

  /// Number of elements of `data` that differ from elements [first, first + count) of the rank's
  /// input, or of the reduction of these ranks' inputs.
  std::size_t differsFromInput(const void* data, int rank, std::size_t first,
                               std::size_t count) const;
  std::size_t differsFromReduction(const void* data, detail::RankRange of, std::size_t first,
                                   std::size_t count) const;

 private:
  using Table = std::vector<std::byte>; ///< kPeriod elements

  void makeInputs();
  Table reductionOf(detail::RankRange of) const;
  std::size_t differs(const Table& table, const void* data, std::size_t first,
                      std::size_t count) const;

  DataType type_;
  std::optional<ReduceOp> op_;
  int ranks_;
  std::vector<Table> inputs_; ///< one per rank
  Table reduction_;           ///< of all ranks
};

} // namespace rondo::tools
