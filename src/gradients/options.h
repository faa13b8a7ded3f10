// Checks the options of a gradient reducer: that they are valid, and equal on all ranks.
#pragma once

#include <span>

#include "rondo/gradients.h"

namespace rondo::gradients {

/// Throws Error(invalid_argument) for invalid options or communicators.
void checkOptions(const GradientOptions& options, std::span<Communicator* const> communicators);

/// Throws Error(unsupported) if the hook does not take a parameter's type.
void checkHook(const GradientOptions& options, std::span<const Parameter> parameters);

/// Collective over the first communicator. Throws Error(mismatch) on every rank, like
/// compareModels(), unless all ranks have the same number of communicators and equal options.
/// `overlap` may differ. Hooks are compared by name.
void compareOptions(const GradientOptions& options, std::span<Communicator* const> communicators);

} // namespace rondo::gradients
