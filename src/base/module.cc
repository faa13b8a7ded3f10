// Finds modules relative to the file from which this code was loaded.
#include "base/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <vector>

namespace rondo::base {

namespace {

std::vector<std::string> candidates(const std::string& file) {
  std::vector<std::string> paths;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&openModule), &info) != 0 &&
      info.dli_fname != nullptr) {
    const std::string self = info.dli_fname;
    if (const auto slash = self.rfind('/'); slash != std::string::npos) {
      const std::string folder = self.substr(0, slash + 1);
      paths.push_back(folder + file);
      paths.push_back(folder + "../lib/" + file);
    }
  }
  paths.push_back(file);
  return paths;
}

} // namespace

void* openModule(const std::string& file, bool for_all, std::string& why) {
  bool exists = false; // an earlier candidate: it is the module, so its reason is reported
  for (const auto& path : candidates(file)) {
    if (void* module = ::dlopen(path.c_str(), RTLD_NOW | (for_all ? RTLD_GLOBAL : RTLD_LOCAL)))
      return module;
    const char* const text = ::dlerror();
    if (exists || text == nullptr) continue;
    why = text; // which may name only a missing library that the module needs
    if (!why.starts_with(path)) why = path + ": " + why;
    exists = path != file && ::access(path.c_str(), F_OK) == 0;
  }
  return nullptr;
}

} // namespace rondo::base
