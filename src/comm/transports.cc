// Lists the transports for users.
#include "rondo/transports.h"

#include "transports/registry.h"

namespace rondo {

std::vector<TransportInfo> transports() {
  std::vector<TransportInfo> all;
  for (const bool devices : {false, true})
    for (const transport::Kind& kind : devices ? transport::deviceKinds() : transport::kinds())
      all.push_back({std::string(kind.name), std::string(kind.summary), kind.between_processes,
                     devices, kind.missing ? kind.missing() : ""});
  return all;
}

} // namespace rondo
