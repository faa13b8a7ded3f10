// A timetable as people read it.
#pragma once

#include <string>

#include "train/parallel/pipeline/timetable.h"

namespace rondo::training {

/// A row for each rank and a column for each unit of time, with passes forward that take one and
/// passes back that take two. "F3" is the pass forward of micro-batch 3, "B3" the one back, "R3"
/// the one forward again; with several laps a letter behind it names the part of this rank: "F3b".
std::string diagram(const Timetable& timetable);

} // namespace rondo::training
