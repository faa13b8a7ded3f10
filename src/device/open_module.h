// Opens the module with the CUDA code.
#pragma once

#include <string>

#include "device/cuda/module.h"

namespace rondo::device {

/// The module, from the folder of this library or program, from the folder ../lib next to it, or
/// from the system's search path. It stays loaded. Null if it cannot be used, with the file and the
/// reason in `why`. `file`: another one than the library's, for tests. Any thread.
const CudaModule* openModule(std::string& why, const std::string& file = kModuleFile);

} // namespace rondo::device
