// The words of TrainOptions::hook, and the gradient hooks that they stand for.
#pragma once

#include <memory>
#include <string>

#include "rondo/gradients.h"

namespace rondo::training {

/// Null for "none". Throws Error(invalid_argument), which lists what there is, for a name or a
/// value that makes no sense.
std::unique_ptr<GradientHook> makeHook(const std::string& text);

} // namespace rondo::training
