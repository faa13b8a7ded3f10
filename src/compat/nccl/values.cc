// Converts NCCL's types, operators, factors and configurations to Rondo's.
#include "compat/nccl/values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "compat/nccl/cuda_driver.h"
#include "compat/nccl/errors.h"

namespace rondo::compat::nccl {

namespace {

/// By NCCL's numbers.
constexpr auto kTypes = [] {
  std::array<DataType, ncclNumTypes> types{};
  for (const detail::DataTypeTraits& row : detail::kDataTypeTraits)
    if (row.nccl >= 0) types[static_cast<std::size_t>(row.nccl)] = row.type;
  return types;
}();

constexpr std::array<ReduceOp, ncclNumOps> kOperators = {
    ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min, ReduceOp::avg};

template <class T>
T read(const void* scalar) {
  T value;
  std::memcpy(&value, scalar, sizeof value);
  return value;
}

template <class T>
double exactly(const void* scalar) {
  const T value = read<T>(scalar);
  // 2^53: a double represents every integer up to it exactly.
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  if (std::cmp_greater(value, kMost) || std::cmp_less(value, -kMost))
    refuse(ncclInvalidArgument, "the factor " + std::to_string(value) + " is beyond 2^53");
  return static_cast<double>(value);
}

template <std::signed_integral T>
double integer(const void* scalar, bool is_signed) {
  return is_signed ? exactly<T>(scalar) : exactly<std::make_unsigned_t<T>>(scalar);
}

/// Decodes a float type that is narrower than 32 bits.
double narrow(unsigned bits, detail::DataTypeTraits::Format format) {
  const int exponent = format.exponent, mantissa = format.mantissa;
  const unsigned most = (1U << exponent) - 1;
  const int bias = static_cast<int>(most >> 1);
  const unsigned fraction = bits & ((1U << mantissa) - 1);
  const auto power = static_cast<int>(bits >> mantissa & most);
  const double sign = (bits >> (exponent + mantissa) & 1U) != 0 ? -1 : 1;
  const bool special = static_cast<unsigned>(power) == most;
  if (special && format.infinity) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  if (special && fraction == (1U << mantissa) - 1) return std::nan("");
  if (power == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp((1U << mantissa) + fraction, power - bias - mantissa);
}

/// Throws Refusal if the field is set to a value outside [lowest, highest].
void checkField(const char* name, int value, int lowest, int highest) {
  if (value != RONDO_NCCL_UNSET && (value < lowest || value > highest))
    refuse(ncclInvalidArgument, std::string("config: ") + name + " is " + std::to_string(value) +
                                    "; valid: " + std::to_string(lowest) + " to " +
                                    std::to_string(highest));
}

ncclConfig_t unsetConfig() {
  constexpr int kUnset = RONDO_NCCL_UNSET;
  return {sizeof(ncclConfig_t),
          RONDO_NCCL_CONFIG_MAGIC,
          RONDO_NCCL_VERSION,
          kUnset,
          kUnset,
          kUnset,
          kUnset,
          nullptr,
          kUnset,
          kUnset,
          nullptr,
          kUnset,
          kUnset,
          kUnset,
          kUnset,
          kUnset,
          kUnset};
}

/// Unsets fields that are newer than the NCCL that the client was compiled with: it did not set
/// them.
void dropNewerFields(ncclConfig_t& config) {
  constexpr int kUnset = RONDO_NCCL_UNSET;
  if (config.version < 21400) config.blocking = kUnset;
  if (config.version < 21700) config.cgaClusterSize = config.minCTAs = config.maxCTAs = kUnset;
  if (config.version < 21800) config.splitShare = kUnset;
  if (config.version < 22700) config.collnetEnable = config.shrinkShare = kUnset;
}

} // namespace

DataType typeOf(ncclDataType_t type) {
  const auto number = static_cast<std::size_t>(type);
  if (number >= kTypes.size())
    refuse(ncclInvalidArgument, "data type " + std::to_string(static_cast<int>(type)) +
                                    " is unknown; valid: 0 to " + std::to_string(ncclNumTypes - 1));
  return kTypes[number];
}

ReduceOp builtInOperator(ncclRedOp_t op) {
  const auto number = static_cast<std::size_t>(op);
  if (number >= kOperators.size())
    refuse(ncclInvalidArgument, "operator " + std::to_string(static_cast<int>(op)) +
                                    " is unknown; valid: 0 to " + std::to_string(ncclNumOps - 1));
  return kOperators[number];
}

double scalarOf(const void* scalar, DataType type) {
  const detail::DataTypeTraits& row = traits(type);
  if (row.isFloat()) {
    switch (row.bytes) {
      case 1: return narrow(read<std::uint8_t>(scalar), row.format);
      case 2: return narrow(read<std::uint16_t>(scalar), row.format);
      case 4: return read<float>(scalar);
      default: return read<double>(scalar);
    }
  }
  switch (row.bytes) {
    case 1: return integer<std::int8_t>(scalar, row.isSigned());
    case 2: return integer<std::int16_t>(scalar, row.isSigned());
    case 4: return integer<std::int32_t>(scalar, row.isSigned());
    default: return integer<std::int64_t>(scalar, row.isSigned());
  }
}

Config configOf(const ncclConfig_t* given) {
  if (!given) return {};
  if (given->magic != RONDO_NCCL_CONFIG_MAGIC)
    refuse(ncclInvalidArgument, "config: it was not made by NCCL_CONFIG_INITIALIZER");
  // The structure of a client of another version is longer or shorter.
  ncclConfig_t config = unsetConfig();
  std::memcpy(&config, given, std::min(given->size, sizeof config));
  dropNewerFields(config);
  checkField("blocking", config.blocking, 0, 1);
  checkField("cgaClusterSize", config.cgaClusterSize, 0, 8);
  checkField("minCTAs", config.minCTAs, 1, INT_MAX);
  checkField("maxCTAs", config.maxCTAs, 1, INT_MAX);
  checkField("splitShare", config.splitShare, 0, 1);
  checkField("shrinkShare", config.shrinkShare, 0, 1);
  checkField("collnetEnable", config.collnetEnable, 0, 1);
  if (config.minCTAs != RONDO_NCCL_UNSET && config.maxCTAs != RONDO_NCCL_UNSET &&
      config.minCTAs > config.maxCTAs)
    refuse(ncclInvalidArgument, "config: minCTAs " + std::to_string(config.minCTAs) +
                                    " is more than maxCTAs " + std::to_string(config.maxCTAs));
  Config values;
  if (config.blocking != RONDO_NCCL_UNSET) values.blocking = config.blocking == 1;
  return values;
}

Options optionsOfThread() {
  Options options = Options::fromEnvironment();
  const CudaDriver& driver = CudaDriver::get();
  if (!std::getenv("RONDO_DEVICE") && driver.devices() > 0) options.device = driver.currentDevice();
  return options;
}

} // namespace rondo::compat::nccl
