// The forms in which `rondo watch` shows what it sees.
#pragma once

#include <string>

#include "tools/watch_view.h"

namespace rondo::tools {

/// A table for people, of at most 100 columns and `lines` lines.
std::string tableOf(const View& view, std::size_t lines);

/// One JSON object in one line.
std::string jsonOf(const View& view);

/// The text format of Prometheus, version 0.0.4.
std::string metricsOf(const View& view);

/// Whether a communicator has a finding.
bool hasFinding(const View& view);

} // namespace rondo::tools
