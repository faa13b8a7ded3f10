// The planner's decisions of a communicator: made by rank 0 when it is opened, equal on all ranks.
#pragma once

#include <memory>
#include <vector>

#include "bootstrap/session.h"
#include "engine/fabric.h"
#include "planner/choose.h"
#include "rondo/options.h"
#include "rondo/place.h"

namespace rondo::comm {

/// Returns what connects the ranks, as this rank sees it. `processors`: how many the ranks of its
/// machine may use together.
planner::Site siteOf(const engine::Fabric& fabric, const std::vector<Place>& places, int own,
                     std::size_t processors, std::size_t message_bytes);

/// Collective. Rank 0's table, from its cache or computed from its profile, which takes 25 ms for 8
/// ranks and 70 ms for 16, on an EPYC; null if Options::planner does not ask for it, or nothing can
/// be decided. Warns if ranks have different profiles. Throws Error(data) on all ranks if a rank
/// cannot read the profile that Options::profile names.
std::shared_ptr<const planner::Table> agreeOnTable(bootstrap::Session& session,
                                                   const Options& options,
                                                   const planner::Policy& policy);

} // namespace rondo::comm
