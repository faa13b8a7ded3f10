// The table of transports.def.
#include "transports/registry.h"

namespace rondo::transport {

#define TRANSPORT(x) extern const Kind k_##x;
#include "transports/transports.def"
#undef TRANSPORT

std::span<const Kind> kinds() {
  // Made at the first call: the entries are constant-initialized, so no order of start-up matters.
  static const Kind table[] = {
#define TRANSPORT(x) k_##x,
#include "transports/transports.def"
#undef TRANSPORT
  };
  return table;
}

} // namespace rondo::transport
