// The type of the numbers that layers multiply.
#pragma once

#include <string>

namespace rondo::training {

/// With bfloat16, convolutions and linear layers multiply values of that type and sum in floats,
/// and what convolutions make, and layers behind them, is of that type. Weights, their gradients
/// and the loss are floats always, and so are what linear layers make and all statistics.
enum class Precision { float32, bfloat16 };

/// By its name. Throws Error(invalid_argument), which lists what there is, for a name of none, and
/// Error(unsupported) where this processor has no instructions for it.
Precision precisionOf(const std::string& name);

} // namespace rondo::training
