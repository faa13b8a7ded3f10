// Makes the benchmark's inputs and expected results, which are exact in any order of reduction.
#include "tools/bench/data.h"

#include <algorithm>
#include <cstring>

#include "tools/bench/values.h"
#include "tools/elements.h"

namespace rondo::tools {

Pattern::Pattern(DataType type, ReduceOp op, int ranks) : type_(type), op_(op), ranks_(ranks) {
  makeInputs();
  reduction_ = reductionOf({0, ranks});
}

Pattern::Pattern(DataType type, int ranks) : type_(type), ranks_(ranks) { makeInputs(); }

void Pattern::makeInputs() {
  const std::size_t size = sizeOf(type_);
  inputs_.assign(static_cast<std::size_t>(ranks_), Table(kPeriod * size));
  for (int rank = 0; rank < ranks_; ++rank) {
    std::byte* to = inputs_[static_cast<std::size_t>(rank)].data();
    for (std::size_t i = 0; i < kPeriod; ++i, to += size) {
      if (!op_) {
        storeElement(type_, to, mix(static_cast<std::uint64_t>(rank) + 1, i));
      } else if (const Recipe recipe{type_, *op_, ranks_}; isFloat(type_)) {
        storeElement(type_, to, encodeFloat(type_, floatInput(recipe, rank, i)));
      } else {
        storeElement(type_, to, integerInput(recipe, rank, i));
      }
    }
  }
}

Pattern::Table Pattern::reductionOf(detail::RankRange of) const {
  const std::size_t size = sizeOf(type_);
  const Recipe recipe{type_, *op_, ranks_};
  Table reduction(kPeriod * size);
  std::byte* to = reduction.data();
  for (std::size_t i = 0; i < kPeriod; ++i, to += size) {
    storeElement(type_, to,
                 isFloat(type_) ? encodeFloat(type_, floatResult(recipe, of, i))
                                : integerResult(recipe, of, i));
  }
  return reduction;
}

void Pattern::fill(void* to, int rank, std::size_t first, std::size_t count) const {
  const Table& table = inputs_[static_cast<std::size_t>(rank)];
  const std::size_t size = sizeOf(type_);
  auto* out = static_cast<std::byte*>(to);
  while (count != 0) {
    const std::size_t at = first % kPeriod;
    const std::size_t part = std::min(count, kPeriod - at);
    std::memcpy(out, table.data() + at * size, part * size);
    out += part * size;
    first += part;
    count -= part;
  }
}

std::size_t Pattern::differs(const Table& table, const void* data, std::size_t first,
                             std::size_t count) const {
  const std::size_t size = sizeOf(type_);
  const auto* in = static_cast<const std::byte*>(data);
  std::size_t wrong = 0;
  while (count != 0) {
    const std::size_t at = first % kPeriod;
    const std::size_t part = std::min(count, kPeriod - at);
    const std::byte* wanted = table.data() + at * size;
    if (std::memcmp(in, wanted, part * size) != 0) {
      for (std::size_t i = 0; i < part; ++i) {
        if (std::memcmp(in + i * size, wanted + i * size, size) != 0) ++wrong;
      }
    }
    in += part * size;
    first += part;
    count -= part;
  }
  return wrong;
}

std::size_t Pattern::differsFromInput(const void* data, int rank, std::size_t first,
                                      std::size_t count) const {
  return differs(inputs_[static_cast<std::size_t>(rank)], data, first, count);
}

std::size_t Pattern::differsFromReduction(const void* data, detail::RankRange of, std::size_t first,
                                          std::size_t count) const {
  if (of == detail::RankRange{0, ranks_}) return differs(reduction_, data, first, count);
  return differs(reductionOf(of), data, first, count);
}

} // namespace rondo::tools
