// The interface of the module with the CPU's layers. The module is linked with oneDNN, so that the
// trainer need not be.
#pragma once

#include "train/layers/onednn/program.h"

namespace rondo::training::onednn {

struct Module {
  decltype(&makeProgram) make;
  decltype(&computes) supports;
  /// Sets OpenMP's number of threads for the calling thread. Returns the old number; 0: OpenMP is
  /// not loaded.
  int (*setThreads)(int count);
};

/// Raise the number in kModuleSymbol when Module, Node or Binding change: then a module of an older
/// version is refused.
inline constexpr const char* kModuleFile = "librondo_train_onednn.so";
inline constexpr const char* kModuleSymbol = "rondo_train_onednn_1";
using StartFunction = const Module* (*)();

} // namespace rondo::training::onednn
