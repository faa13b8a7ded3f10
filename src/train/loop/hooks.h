// The words of TrainOptions::hook, and what they stand for.
#pragma once

#include <memory>
#include <string>

#include "rondo/gradients.h"

namespace rondo::training {

/// Null for "none". Throws Error(invalid_argument), which lists what there is, for a name or a
/// value that makes no sense.
std::unique_ptr<GradientHook> makeHook(const std::string& text);
/// The same word for one rank's gradients, which travel without collectives. Null for "none".
/// Throws Error(invalid_argument) as makeHook(), and for a hook that is nothing without
/// collectives.
std::unique_ptr<GradientCodec> makeCodec(const std::string& text);

} // namespace rondo::training
