// Dumps for PyTorch's flight-recorder analyser, and dumps of PyTorch's recorder for ours.
#pragma once

#include <cstdint>
#include <string>

#include "tools/report_read.h"

namespace rondo::tools {

/// Writes one file for each rank, "rondo_trace_RANK", in the pickle format that `torchfrtrace`
/// reads. Returns the number of ranks. A communicator becomes a process group, and ranks are those
/// of the largest communicator. Sends and receives are left out: the analyser matches only groups
/// of them. The folder is made. Throws Error(system) if a file cannot be written.
int writeTorch(const Dumps& dumps, const std::string& folder);

/// Reads a dump of PyTorch's recorder as JSON. `rank`: of the process in its job, which the file's
/// name tells and its text does not. `time`: nanoseconds since 1970 when it was made. Throws
/// std::exception that says why it is refused.
ProcessDump readTorch(const std::string& text, const std::string& file, int rank,
                      std::int64_t time);

} // namespace rondo::tools
