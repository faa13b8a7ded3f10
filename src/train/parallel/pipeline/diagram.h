// Draws a timetable as text.
#pragma once

#include <string>

#include "train/parallel/pipeline/timetable.h"

namespace rondo::training {

/// Returns a row for each stage, with a column for each unit of time: a forward pass takes one
/// unit, a backward pass two. "F3" is the forward pass of micro-batch 3, "B3" its backward pass,
/// "R3" its recomputation. With several laps a letter names the part on this stage: "F3b".
std::string diagram(const Timetable& timetable);

} // namespace rondo::training
