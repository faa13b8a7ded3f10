// Draws plans as a graph of steps, in Graphviz' language.
#pragma once

#include <string>

#include "plan/plan.h"

namespace rondo::tools {

/// A box for each step, a frame for each rank. Solid edges are messages, dashed ones the order of
/// lanes and the steps that a step waits for. Throws Error(invalid_argument) if the plans of the
/// ranks do not match.
std::string dotText(const plan::Algorithm& algorithm, const plan::Spec& spec);

} // namespace rondo::tools
