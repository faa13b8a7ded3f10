// Names of element types, operators and collectives, and their parsers.
#include "rondo/types.h"

#include "base/parse.h"
#include "rondo/error.h"

namespace rondo {
namespace {

/// In the order of the enumerations.
constexpr std::array<std::string_view, kDataTypeCount> kDataTypeNames = {
    "int8",   "uint8",   "int16",    "uint16",   "int32",    "uint32", "int64",
    "uint64", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "float",  "double"};

struct DataTypeAlias {
  std::string_view name;
  DataType type;
};
constexpr DataTypeAlias kDataTypeAliases[] = {
    {"char", DataType::int8},
    {"byte", DataType::uint8},
    {"int", DataType::int32},
    {"half", DataType::float16},
    {"fp16", DataType::float16},
    {"bf16", DataType::bfloat16},
    {"e4m3", DataType::float8e4m3},
    {"f8e4m3", DataType::float8e4m3},
    {"float8e4m3", DataType::float8e4m3},
    {"float8_e4m3", DataType::float8e4m3},
    {"e5m2", DataType::float8e5m2},
    {"f8e5m2", DataType::float8e5m2},
    {"float8e5m2", DataType::float8e5m2},
    {"float8_e5m2", DataType::float8e5m2},
    {"float32", DataType::float32},
    {"fp32", DataType::float32},
    {"float64", DataType::float64},
    {"fp64", DataType::float64},
};

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

std::string_view name(DataType type) { return kDataTypeNames[static_cast<std::size_t>(type)]; }

DataType parseDataType(std::string_view text) {
  if (std::size_t i = indexOf(text, kDataTypeNames); i < kDataTypeCount) return kDataTypes[i];
  for (const DataTypeAlias& alias : kDataTypeAliases) {
    if (base::equalIgnoringCase(text, alias.name)) return alias.type;
  }
  unknown("data type", text, kDataTypeNames);
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
    const CollectiveTraits& row = kCollectiveTraits[i];
    if (base::equalIgnoringCase(text, row.name)) return row.collective;
    if (!row.alias.empty() && base::equalIgnoringCase(text, row.alias)) return row.collective;
    names[i] = row.name;
  }
  unknown("collective", text, names);
}

} // namespace rondo
