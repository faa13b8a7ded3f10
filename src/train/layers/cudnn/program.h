// Networks by cuDNN and cuBLAS, on a GPU.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "rondo/options.h"

#include "train/layers/node.h"
#include "train/layers/program.h"

namespace rondo::training::cudnn {

/// Where a program runs, and how long it waits for anything there.
struct Gpu {
  int number;
  std::chrono::milliseconds timeout = Options().timeout;
};

/// On this GPU, in floats. The nodes must live as long; weights and gradients stay in host memory.
/// Throws Error(unsupported) for another precision, and Error(system), with the library's words, if
/// that cannot; passes throw the latter, too, and Error(timeout), which says what did not come. A
/// program whose work does not end is kept for good when it is destroyed, since what still runs
/// must not lose its memory; and while it runs, so are others on that GPU: CUDA would wait for it.
std::unique_ptr<Program> makeProgram(const std::vector<Node>& nodes, const Binding& binding,
                                     const Gpu& gpu);

} // namespace rondo::training::cudnn
