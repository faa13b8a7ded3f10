// `rondo topo -p N`: shows a running job, and where its ranks are.
#pragma once

#include <string>

namespace rondo::tools {

/// Draws the job; all its ranks call it. Rank 0 prints, and writes `svg` if it is not empty.
/// `bind`: as Options::bind; empty: RONDO_BIND, else core.
int drawJob(const std::string& bind, const std::string& svg);

/// Prints on stderr why hwloc is missing; nothing if `hwloc` is empty.
void reportMissing(const std::string& hwloc);

} // namespace rondo::tools
