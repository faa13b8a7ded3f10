// The report of a training run: one self-contained HTML page.
#pragma once

#include <string>

#include "train/report/record.h"

namespace rondo::training {

/// Returns the page: curves of loss, accuracy, learning rate and step time, the parts of a step's
/// time, the timeline of one step, and the settings. It has inline SVG and follows the reader's
/// light or dark colour scheme. It has no scripts and loads nothing from a network.
std::string pageText(const TrainRecord& record);

/// Writes pageText() to a file. Throws Error(system), which names the file, if that fails.
void writePage(const std::string& path, const TrainRecord& record);

} // namespace rondo::training
