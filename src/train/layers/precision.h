// The number type that layers multiply.
#pragma once

#include <string>

namespace rondo::training {

/// With bfloat16, convolutions and linear layers multiply bfloat16 values and sum in float32. The
/// outputs of convolutions are bfloat16, and so are those of layers that normalise, pool or add
/// them. Linear layers and dropout output float32. Weights, gradients, statistics and the loss are
/// always float32. If ranks share a layer (strategy tensor, batch norm over ranks), each rank
/// rounds the output of its convolution before outputs are summed.
enum class Precision { float32, bfloat16 };

/// Finds a precision by its name. Throws Error(invalid_argument), which lists the valid names, for
/// an unknown name, Error(unsupported) if this processor has no instructions for it, and the error
/// of cpuLayers().
Precision precisionOf(const std::string& name);

} // namespace rondo::training
