// The options that say where simulated ranks are and how fast their links are.
#pragma once

#include <string>
#include <vector>

#include "model/simulate.h"
#include "plan/layout.h"

namespace CLI {
class App;
}

namespace rondo::tools {

struct NetworkConfig {
  std::string profile; ///< path; empty: the default profile
  std::string ideal;   ///< "ALPHA_US,GBS" in place of a profile; may be empty
  std::string link, between;
  int processors = 0;
  std::vector<std::string> stragglers, slow_links, dead_links;
};

void addNetworkOptions(CLI::App& app, NetworkConfig& config);
/// Options about links that deviate from the profile.
void addLinkConditionOptions(CLI::App& app, NetworkConfig& config);
/// These, and options about ranks that do.
void addConditionOptions(CLI::App& app, NetworkConfig& config);

/// A network and the profile that it refers to.
struct PlannedNetwork {
  model::Profile profile;
  model::LinkClass inside = model::LinkClass::shm, between = model::LinkClass::loopback;
  int processors = 0;
  model::Conditions conditions;

  model::Network network() const {
    return {.profile = &profile,
            .inside = inside,
            .between = between,
            .processors = processors,
            .conditions = conditions};
  }
  /// "profile 'default', links shm, between nodes loopback, 2 processors a node"
  std::string text(const plan::Layout& layout) const;
};

/// Reads the profile, and warns on standard error if it is foreign. Throws Error(data),
/// Error(invalid_argument).
PlannedNetwork plannedNetwork(const NetworkConfig& config);

} // namespace rondo::tools
