// Networks by oneDNN, on the CPU.
#pragma once

#include <memory>
#include <vector>

#include "train/layers/node.h"
#include "train/layers/program.h"

namespace rondo::training::onednn {

/// The nodes must live as long. Throws Error(system), with oneDNN's words, if it cannot.
std::unique_ptr<Program> makeProgram(const std::vector<Node>& nodes, const Binding& binding);

/// Whether this processor has instructions for it.
bool computes(Precision precision);

} // namespace rondo::training::onednn
