// The interface of the module with the GPU layers. The module is linked with CUDA's libraries, so
// that the trainer need not be.
#pragma once

#include <string>

#include "train/layers/cudnn/program.h"

namespace rondo::training::cudnn {

struct Module {
  /// The number of usable GPUs. If it is 0, `why` is set to the reason.
  int (*devices)(std::string& why);
  decltype(&makeProgram) make;
};

/// The number in the symbol changes with Module, Node and Binding, so that a module of another
/// version is not used.
inline constexpr const char* kModuleFile = "librondo_train_cudnn.so";
inline constexpr const char* kModuleSymbol = "rondo_train_cudnn_2";
using StartFunction = const Module* (*)();

} // namespace rondo::training::cudnn
