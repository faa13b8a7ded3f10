// Makes a communicator of the ranks of another one and of new ranks.
#pragma once

#include <memory>
#include <optional>

#include "bootstrap/session.h"
#include "planner/rules_file.h"
#include "rondo/options.h"
#include "rondo/rendezvous.h"

namespace rondo::comm {

class CommunicatorImpl;

/// How long a rank that has ended the second step of grow() waits for the others in the third, in
/// units of Options::init_timeout. The slowest rank may still have to connect and to make its
/// exchanges, each of which is limited by that timeout.
constexpr int kGrowSteps = 3;

/// One rank's arguments of Communicator::grow().
struct Growth {
  int newcomers = 0;
  std::optional<UniqueId> id;
};

/// Collective over the ranks of `old`; implements Communicator::grow(). `rules`: of the old
/// communicator, or null.
std::shared_ptr<CommunicatorImpl> openGrown(bootstrap::Session& old, const Growth& own,
                                            const Options& options,
                                            std::shared_ptr<const planner::RulesFile> rules);

} // namespace rondo::comm
