// Makes gradient hooks and codecs from the words of TrainOptions::gradients.hook.
#pragma once

#include <memory>
#include <string>

#include "rondo/gradients.h"

namespace rondo::training {

/// Returns null for "none". Throws Error(invalid_argument), which lists all hooks, for an unknown
/// name or an invalid value.
std::unique_ptr<GradientHook> makeHook(const std::string& text);
/// Makes the codec of the same word, for gradients that are sent without collectives. Returns null
/// for "none". Throws Error(invalid_argument) like makeHook(), and for a hook that only works with
/// collectives.
std::unique_ptr<GradientCodec> makeCodec(const std::string& text);

} // namespace rondo::training
