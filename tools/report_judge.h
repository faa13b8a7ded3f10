// Finds what is wrong in the ranks' last calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/report_read.h"

namespace rondo::tools {

struct Finding {
  std::string kind; ///< differs, died, stopped, left, never_entered, never_sent, never_received,
                    ///< missing, failure, straggler, slow_link; without a culprit: elsewhere,
                    ///< stuck, too_early, consequence
  int culprit = -1; ///< rank; -1: this finding names none
  std::string text;
  int peer = -1; ///< of a link between two ranks: the other one
};

struct JudgeRules {
  /// A call that has made no progress for so many nanoseconds is waiting.
  std::int64_t patience = 1'000'000'000;
  /// True: a rank without a dump has died, or its dump was not made. False: it is on another host.
  bool all_present = true;
};

/// What is wrong in one communicator: the causes first. Empty if no rank waits for long.
std::vector<Finding> judge(const Dumps& dumps, const std::string& communicator,
                           const JudgeRules& rules = {});

/// The rank's first collective in flight, or else its first Send or Recv in flight that a thread
/// waits for (a program may post others long before); null if there is none.
const RecordedCall* inFlight(const RecordedRank& rank);

/// "ranks 0-2, 5".
std::string ranksText(const std::vector<int>& ranks);

} // namespace rondo::tools
