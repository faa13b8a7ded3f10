// What the module with the GPU's layers shows: it is linked with CUDA's libraries, so that the
// trainer is not.
#pragma once

#include <string>

#include "train/layers/cudnn/program.h"

namespace rondo::training::cudnn {

struct Module {
  /// GPUs that can be used; none: `why`.
  int (*devices)(std::string& why);
  decltype(&makeProgram) make;
};

/// The number changes with Module, Node and Binding: another version is not found.
inline constexpr const char* kModuleFile = "librondo_train_cudnn.so";
inline constexpr const char* kModuleSymbol = "rondo_train_cudnn_2";
using StartFunction = const Module* (*)();

} // namespace rondo::training::cudnn
