// Decides which processors each rank of a machine runs on.
#pragma once

#include <vector>

#include "base/bind_rule.h"
#include "topology/machine.h"

namespace rondo::topology {

using base::BindRule;
using base::bindThread;
using base::parseBind;

/// Returns one set of processors for each of `ranks` ranks of a machine, in the order of the ranks.
/// All are parts of `allowed`, except that a list in `rule` is used as given.
///
/// core: rank r gets the r-th core, counted package by package and cache by cache, so that
/// consecutive ranks are near each other; if there are more ranks than cores, counting starts
/// again. socket: ranks are divided into as many consecutive runs as there are packages; each run
/// gets one package. list: rank r gets the r-th processor of the list; after the last one counting
/// starts again. none: every rank gets all of `allowed`. If the machine lists no cores, each
/// processor counts as a core; if it lists no packages, all processors count as one.
std::vector<Processors> bindings(const Machine& machine, const BindRule& rule,
                                 const Processors& allowed, int ranks);

} // namespace rondo::topology
