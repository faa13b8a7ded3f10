// Finds a rank that makes the others wait in call after call.
#pragma once

#include <optional>

#include "tools/report_judge.h"

namespace rondo::tools {

/// The straggler among the ranks of a communicator of `size` ranks, if there is one: see the head
/// of report_straggler.cc.
std::optional<Finding> findStraggler(const RecordedRanks& ranks, int size);

} // namespace rondo::tools
