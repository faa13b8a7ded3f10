// Names of element types, operators and collectives, and their parsers.
#include "rondo/types.h"

#include "base/parse.h"
#include "rondo/error.h"

namespace rondo {
namespace {

/// In the order of the enumeration.
constexpr std::array<std::string_view, ReduceOp::kKindCount> kOpNames = {
    "sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "premulsum"};

template <std::size_t N>
[[noreturn]] void unknown(std::string_view kind, std::string_view text,
                          const std::array<std::string_view, N>& names) {
  throw Error(ErrorCode::invalid_argument, "unknown " + std::string(kind) + " " +
                                               base::quoted(text) +
                                               "; valid: " + base::join(names, ", "));
}

template <std::size_t N>
std::size_t indexOf(std::string_view text, const std::array<std::string_view, N>& names) {
  for (std::size_t i = 0; i < N; ++i) {
    if (base::equalIgnoringCase(text, names[i])) return i;
  }
  return N;
}

} // namespace

std::string_view name(DataType type) { return traits(type).name; }

DataType parseDataType(std::string_view text) {
  std::array<std::string_view, kDataTypeCount> names;
  for (std::size_t i = 0; i < kDataTypeCount; ++i) {
    const detail::DataTypeTraits& row = detail::kDataTypeTraits[i];
    names[i] = row.name;
    if (base::equalIgnoringCase(text, row.name)) return row.type;
    for (const std::string_view alias : row.aliases)
      if (!alias.empty() && base::equalIgnoringCase(text, alias)) return row.type;
  }
  unknown("data type", text, names);
}

std::string_view name(ReduceOp op) { return kOpNames[static_cast<std::size_t>(op.kind())]; }

ReduceOp parseReduceOp(std::string_view text) {
  if (std::size_t i = indexOf(text, kOpNames); i < ReduceOp::kKindCount) return kReduceOps[i];
  unknown("reduction operator", text, kOpNames);
}

std::string_view name(Collective collective) { return traits(collective).name; }

Collective parseCollective(std::string_view text) {
  std::array<std::string_view, kCollectiveCount> names;
  for (std::size_t i = 0; i < kCollectiveCount; ++i) {
    const detail::CollectiveTraits& row = detail::kCollectiveTraits[i];
    if (base::equalIgnoringCase(text, row.name)) return row.collective;
    if (!row.alias.empty() && base::equalIgnoringCase(text, row.alias)) return row.collective;
    names[i] = row.name;
  }
  unknown("collective", text, names);
}

} // namespace rondo
