// Exports the timeline of a training run for trace viewers.
#pragma once

#include <span>
#include <string>

#include "train/report/record.h"

namespace rondo::training {

/// Returns the events in the Trace Event Format (JSON), which ui.perfetto.dev and chrome://tracing
/// read. Each rank is a process with one lane for computation and one for communication. The first
/// event begins at 0.
std::string traceText(std::span<const TimelineEvent> events);

/// Writes traceText() to a file. Throws Error(system), which names the file, if that fails.
void writeTrace(const std::string& path, std::span<const TimelineEvent> events);

} // namespace rondo::training
