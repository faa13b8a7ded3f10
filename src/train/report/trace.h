// The timeline of a training run for trace viewers.
#pragma once

#include <span>
#include <string>

#include "train/report/record.h"

namespace rondo::training {

/// In the Trace Event Format (JSON) that ui.perfetto.dev and chrome://tracing open: a process for
/// each rank, with a lane for what it computes and one for what it communicates. The first event
/// begins at 0.
std::string traceText(std::span<const TimelineEvent> events);

/// Puts traceText() into a file; Error(system) that names it if that fails.
void writeTrace(const std::string& path, std::span<const TimelineEvent> events);

} // namespace rondo::training
