// Finds what is wrong in the ranks' last calls.
#pragma once

#include <string>
#include <vector>

#include "tools/report_read.h"

namespace rondo::tools {

struct Finding {
  std::string kind; ///< differs, stopped, left, never_entered, never_sent, never_received, missing,
                    ///< failure; without a culprit: elsewhere, stuck, too_early
  int culprit = -1; ///< rank; -1: this finding names none
  std::string text;
};

/// What is wrong in one communicator: the causes first. Empty if no rank waits for long.
std::vector<Finding> judge(const Dumps& dumps, const std::string& communicator);

/// The rank's first collective in flight, or else its first Send or Recv in flight that a thread
/// waits for (a program may post others long before); null if there is none.
const RecordedCall* inFlight(const RecordedRank& rank);

/// "ranks 0-2, 5".
std::string ranksText(const std::vector<int>& ranks);

} // namespace rondo::tools
