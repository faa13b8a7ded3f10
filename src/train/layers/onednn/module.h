// The interface of the module with the CPU's layers. The module is linked with oneDNN, so that the
// trainer need not be.
#pragma once

#include "train/layers/onednn/program.h"

namespace rondo::training::onednn {

struct Module {
  decltype(&makeProgram) make;
  decltype(&computes) supports;
  /// Sets how many threads compute for the calling thread, and returns how many did before; 0 if
  /// this oneDNN has no threads.
  int (*setThreads)(int count);
};

/// The number in the symbol changes with Module, Node and Binding, so that a module of another
/// version is not used.
inline constexpr const char* kModuleFile = "librondo_train_onednn.so";
inline constexpr const char* kModuleSymbol = "rondo_train_onednn_1";
using StartFunction = const Module* (*)();

} // namespace rondo::training::onednn
