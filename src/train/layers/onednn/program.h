// Makes programs that run networks on the CPU, by oneDNN.
#pragma once

#include <memory>
#include <vector>

#include "train/layers/node.h"
#include "train/layers/program.h"

namespace rondo::training::onednn {

/// The nodes must outlive the program. Throws Error(system), with oneDNN's text, if oneDNN cannot
/// build it.
std::unique_ptr<Program> makeProgram(const std::vector<Node>& nodes, const Binding& binding);

/// Whether this processor has the instructions for the precision.
bool computes(Precision precision);

} // namespace rondo::training::onednn
