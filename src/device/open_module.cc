// Opens librondo_cuda.so. It is tried in builds without CUDA too: the library is the same as in
// builds with it, so a module that was built later can be put beside it.
#include "device/open_module.h"

#include <dlfcn.h>

#include "base/module.h"

namespace rondo::device {

const CudaModule* openModule(std::string& why, const std::string& file) {
  why.clear();
  void* const module = base::openModule(file, false, why);
  if (!module) return nullptr;
  const auto start = reinterpret_cast<StartFunction>(::dlsym(module, kModuleSymbol));
  if (start) return start();
  why = file + " has another version";
  return nullptr;
}

} // namespace rondo::device
