// Names of layer types, for texts.
#pragma once

#include <string_view>

#include "train/layers/values.h"

namespace rondo::training {

/// "linear", "batch norm"
std::string_view kindOf(const LayerValue& layer);

} // namespace rondo::training
