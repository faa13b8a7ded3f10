// What a gradient reducer is told: whether it makes sense, and whether all ranks are told the same.
#pragma once

#include <span>

#include "rondo/gradients.h"

namespace rondo::gradients {

/// Throws Error(invalid_argument) for options or communicators that make no sense.
void checkOptions(const GradientOptions& options, std::span<Communicator* const> communicators);

/// Throws Error(unsupported) where the hook cannot take a parameter's type.
void checkHook(const GradientOptions& options, std::span<const Parameter> parameters);

/// Collective over the first communicator. Throws Error(mismatch) on every rank, as compareModels()
/// does, unless all ranks have equal options, of those that all must have alike, and as many
/// communicators. Of hooks the names are compared.
void compareOptions(const GradientOptions& options, std::span<Communicator* const> communicators);

} // namespace rondo::gradients
