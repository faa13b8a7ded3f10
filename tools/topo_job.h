// `rondo topo -p N`: a job that runs, and who sits where in it.
#pragma once

#include <string>

namespace rondo::tools {

/// Draws the job as one of its ranks, which all call it; rank 0 prints, and writes `svg` if it is
/// not empty. `bind` as Options::bind; empty: as the environment says, else core.
int drawJob(const std::string& bind, const std::string& svg);

/// Says on stderr why hwloc is missing; nothing if `hwloc` is empty.
void reportMissing(const std::string& hwloc);

} // namespace rondo::tools
