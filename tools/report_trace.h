// Merges the traces of a job's ranks into one file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/report_read.h"

namespace rondo::tools {

/// What the trace of one rank says about itself.
struct TracedRank {
  std::uint64_t calls = 0, left_out = 0;
  std::int64_t clock_error = -1; ///< nanoseconds; negative: not known
  bool ended = false;            ///< its last line is there: the rank closed its communicators
};

struct MergedTrace {
  std::string job;  ///< JOB-COMMUNICATOR
  std::string file; ///< that was written
  int size = 0;     ///< ranks of the communicator
  std::map<int, TracedRank> ranks;
  std::vector<Refused> refused; ///< files of this job, and lines of them
  /// Files in the folder of other jobs, and of communicators that were not split from this one.
  std::map<std::string, std::size_t> others;

  bool whole() const;
};

/// Merges the files rondo-trace-JOB-COMMUNICATOR-RANK.json of a folder that have the same job and
/// communicator. `job`: JOB-COMMUNICATOR, or only JOB, which has the one with the most files;
/// empty: of all jobs the one with the most. `output`: the file to write; empty: trace.json in the
/// folder. Throws Error(invalid_argument) if the folder has no trace, and Error(system) if the file
/// cannot be written.
MergedTrace mergeTraces(const std::string& folder, const std::string& job,
                        const std::string& output);

} // namespace rondo::tools
