// The type of the numbers that layers multiply.
#pragma once

#include <string>

namespace rondo::training {

/// With bfloat16, convolutions and linear layers multiply values of that type and sum in floats.
/// What convolutions make is of that type again, and what normalises, pools or adds it; linear
/// layers and dropout make floats. The weights, their gradients, all statistics and the loss are
/// floats always. Where ranks have parts of one layer (the strategy tensor, batch norm over ranks),
/// what a convolution makes is rounded on each of them before it is added up.
enum class Precision { float32, bfloat16 };

/// By its name. Throws Error(invalid_argument), which lists what there is, for a name of none, and
/// Error(unsupported) where this processor has no instructions for it. (Without oneDNN nothing is
/// computed in any.)
Precision precisionOf(const std::string& name);

} // namespace rondo::training
