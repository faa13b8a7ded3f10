// What the ranks of a communicator tell each other while it is opened.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/session.h"
#include "comm/bind_rank.h"
#include "comm/links.h"
#include "planner/rules_file.h"
#include "rondo/options.h"
#include "rondo/place.h"

namespace rondo::comm {

/// The settings, before anything is opened.
struct Agreed {
  Options options;                ///< rank 0's values for the settings that must be equal
  std::vector<int> devices;       ///< of every rank
  std::vector<std::string> nodes; ///< of every rank
  std::vector<Unbound> unbound;   ///< of every rank
  std::shared_ptr<const planner::RulesFile> rules; ///< of rank 0; null: it has none
};

/// Collective. `rules`: those of the communicator that this one is made from, if there is one. They
/// are used in place of Options::rules_file. Throws Error(data) on all ranks if rank 0 cannot use
/// its rules file.
Agreed agree(bootstrap::Session& session, Options options, const planner::RulesFile* rules);

/// Where a rank is, and how its transports are reached.
struct RankInfo {
  Place place;
  std::size_t slot_bytes = 0; ///< the largest message of all its transports
  Addresses addresses;
};

/// Collective, when this rank's transports exist. Returns the information of all ranks.
std::vector<RankInfo> exchangeInfo(bootstrap::Session& session, const Agreed& agreed,
                                   const Transports& transports);

} // namespace rondo::comm
