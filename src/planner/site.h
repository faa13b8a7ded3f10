// What connects the ranks of a communicator, as predictions need it.
#pragma once

#include <cstddef>

#include "model/profile.h"
#include "model/simulate.h"

namespace rondo::planner {

struct Site {
  model::LinkClass inside = model::LinkClass::shm;       ///< between ranks of a node
  model::LinkClass between = model::LinkClass::loopback; ///< between nodes
  int processors = 0;            ///< that the ranks of a node share; 0: one for each rank
  std::size_t message_bytes = 0; ///< largest message; 0: as the profile says

  bool operator==(const Site&) const = default;
};

/// A network, and the profile that it refers to.
class SiteNetwork {
 public:
  SiteNetwork(const Site& site, model::Profile profile);
  SiteNetwork(const SiteNetwork&) = delete;
  SiteNetwork& operator=(const SiteNetwork&) = delete;

  const model::Network& network() const { return network_; }

 private:
  model::Profile profile_;
  model::Network network_;
};

} // namespace rondo::planner
