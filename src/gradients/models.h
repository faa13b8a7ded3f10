// Ranks find out whether they hold the same model.
#pragma once

#include <span>

#include "rondo/gradients.h"

namespace rondo::gradients {

/// Collective. Throws Error(mismatch) on every rank unless all list the same parameters: as many,
/// with equal names, types and shapes, in the same order. The text names the first that differs and
/// two ranks; the culprit is the one rank that differs from rank 0, if it is one.
void compareModels(Communicator& comm, std::span<const Parameter> parameters);

/// Throws Error(invalid_argument) for a parameter without a name or memory, of a type that is not
/// floating-point, or with the name of another.
void checkParameters(std::span<const Parameter> parameters);

} // namespace rondo::gradients
