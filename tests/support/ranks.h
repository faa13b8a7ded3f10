// N ranks as threads of the test's process, on any transport.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "support/grid.h"

namespace rondo::test {

/// The numbers of ranks in every grid: one, powers of two, and numbers in between.
inline const std::vector<int> kRankCounts =
    kWholeGrid ? std::vector<int>{1, 2, 3, 4, 5, 7, 8} : std::vector<int>{1, 3, 4};

/// Options that do not depend on the environment.
inline Options plainOptions(const std::string& transports = "", const std::string& algorithm = "") {
  Options options;
  options.transports = transports;
  options.algorithm = algorithm;
  options.log_level = LogLevel::none;
  options.timeout = std::chrono::seconds(60);
  return options;
}

/// Ranks of this process that meet over sockets, as those of several processes do.
std::vector<Communicator> ranksOverSockets(int size, const Options& options);

/// Runs body(communicator of rank r) on a thread for each rank. Returns each rank's complaint: the
/// string that the body returned, or the text of what it threw; empty if all was right. (Catch2's
/// macros are not thread-safe, so bodies return what they find.)
std::vector<std::string> onRanks(std::vector<Communicator>& ranks,
                                 const std::function<std::string(Communicator&)>& body);

/// The first complaint, with its rank; empty if there is none.
std::string firstComplaint(const std::vector<std::string>& complaints);

} // namespace rondo::test
