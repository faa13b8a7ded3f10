// Texts that reports and the watch share.
#pragma once

#include <string>

#include "tools/report_read.h"

namespace rondo::tools {

/// The line without characters that steer a terminal: it may come from files or hosts of others.
std::string printable(std::string line);

/// "in AllReduce #412 (sum of 1000 float) by ring for 5.2 s, lane 0 step 1, waiting ...".
std::string stateText(const RecordedRank& rank);

} // namespace rondo::tools
