// Finds a slow link among those that a communicator uses.
#pragma once

#include <vector>

#include "tools/report_judge.h"

namespace rondo::tools {

/// The slow links of a communicator: see the head of report_link.cc. If several links of a host are
/// slow, the finding names its rank; a finding of a link between two ranks names the sender.
std::vector<Finding> findSlowLinks(const RecordedRanks& ranks);

} // namespace rondo::tools
