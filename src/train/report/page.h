// The report of a training run: one HTML page that needs nothing else.
#pragma once

#include <string>

#include "train/report/record.h"

namespace rondo::training {

/// Curves of loss, accuracy, learning rate and step time, where the time of a step went, the lanes
/// of one step, and the settings. Inline SVG, light and dark as the reader's system is; no script,
/// nothing from any network.
std::string pageText(const TrainRecord& record);

/// Puts pageText() into a file; Error(system) that names it if that fails.
void writePage(const std::string& path, const TrainRecord& record);

} // namespace rondo::training
