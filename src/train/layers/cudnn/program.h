// Makes programs that run networks on a GPU, by cuDNN and cuBLAS.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "rondo/options.h"

#include "train/layers/node.h"
#include "train/layers/program.h"

namespace rondo::training::cudnn {

/// The GPU of a program, and the longest time that it waits for any work there.
struct Gpu {
  int number;
  std::chrono::milliseconds timeout = Options().timeout;
};

/// Builds a program on this GPU, in float32. The nodes must outlive it; weights and gradients stay
/// in host memory. Throws Error(unsupported) for another precision, and Error(system), with the
/// library's text, if a library call fails. Passes throw Error(system) too, and Error(timeout),
/// which names the work that did not complete. If the work of a program does not end, the program
/// is never freed when it is destroyed, because running work must not lose its memory. While it
/// runs, other destroyed programs of that GPU are not freed either, because CUDA would wait for the
/// work.
std::unique_ptr<Program> makeProgram(const std::vector<Node>& nodes, const Binding& binding,
                                     const Gpu& gpu);

} // namespace rondo::training::cudnn
