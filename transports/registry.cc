// Builds the tables from transports.def.
#include "transports/registry.h"

namespace rondo::transport {

#define TRANSPORT(x) extern const Kind k_##x;
#define DEVICE_TRANSPORT(x) extern const Kind k_##x;
#include "transports/transports.def"
#undef TRANSPORT
#undef DEVICE_TRANSPORT

// Built at the first call. The entries are constant-initialized, so the order of initialization
// does not matter.

std::span<const Kind> kinds() {
  static const Kind table[] = {
#define TRANSPORT(x) k_##x,
#define DEVICE_TRANSPORT(x)
#include "transports/transports.def"
#undef TRANSPORT
#undef DEVICE_TRANSPORT
  };
  return table;
}

std::span<const Kind> deviceKinds() {
  static const Kind table[] = {
#define TRANSPORT(x)
#define DEVICE_TRANSPORT(x) k_##x,
#include "transports/transports.def"
#undef TRANSPORT
#undef DEVICE_TRANSPORT
  };
  return table;
}

} // namespace rondo::transport
