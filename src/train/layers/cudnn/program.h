// Networks by cuDNN and cuBLAS, on a GPU.
#pragma once

#include <memory>
#include <vector>

#include "train/layers/node.h"
#include "train/layers/program.h"

namespace rondo::training::cudnn {

/// Throws Error(unsupported), which names the layer, for the first one that this backend has not.
void requireLayers(const std::vector<Node>& nodes);

/// On this device, in floats. The nodes must live as long; weights and gradients stay in host
/// memory. Throws Error(unsupported) as requireLayers() and for another precision, and
/// Error(system), with the library's words, if that cannot; passes throw the latter, too.
std::unique_ptr<Program> makeProgram(const std::vector<Node>& nodes, const Binding& binding,
                                     int device);

} // namespace rondo::training::cudnn
