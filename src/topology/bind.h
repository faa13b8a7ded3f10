// Which processors each rank of a machine runs on.
#pragma once

#include <vector>

#include "base/bind_rule.h"
#include "topology/machine.h"

namespace rondo::topology {

using base::BindRule;
using base::bindThread;
using base::parseBind;

/// The processors of each of `ranks` ranks of a machine, which may use `allowed` of them; one set
/// each, in the order of ranks.
///
/// core: rank r has the r-th core, counted package by package and cache by cache, so that ranks
/// which follow each other are near each other; where there are more ranks than cores, counting
/// begins again. socket: ranks are divided into as many runs as there are packages, each of which
/// has one. list: rank r has its r-th processor, and counting begins again behind the last. none:
/// all of `allowed`. What the machine does not know of (cores, packages) counts as one processor
/// each, or as one package.
std::vector<Processors> bindings(const Machine& machine, const BindRule& rule,
                                 const Processors& allowed, int ranks);

} // namespace rondo::topology
