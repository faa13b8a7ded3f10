// Checks that all ranks hold the same model.
#pragma once

#include <span>
#include <string>

#include "rondo/gradients.h"

namespace rondo::gradients {

/// Collective. Throws Error(mismatch) on every rank unless all ranks list the same parameters: the
/// same number, with equal names, types and shapes, in the same order. The text names the first
/// difference and two ranks. The culprit is the rank that differs from rank 0, if only one does.
void compareModels(Communicator& comm, std::span<const Parameter> parameters);

/// Throws Error(invalid_argument) for a parameter without a name or a value, of a type that is not
/// floating-point, or with the name of another parameter.
void checkParameters(std::span<const Parameter> parameters);

/// Throws Error(invalid_argument) in the name of `function` if this thread has an open Group. Its
/// calls would only be recorded, but the function needs their results.
void refuseInGroup(const std::string& function);

} // namespace rondo::gradients
