// Tells failures that are causes from those that only follow from another communicator's failure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/report_judge.h"
#include "tools/report_read.h"

namespace rondo::tools {

/// What is wrong in each communicator, by its id. Findings of a failure that follows from an
/// earlier one of another communicator have the kind "consequence", and no culprit.
std::map<std::string, std::vector<Finding>> judgeAll(const Dumps& dumps);

} // namespace rondo::tools
