// Opens librondo_ucx.so from the folder of this library or program, or else from the system's
// search path.
#include "transports/ucx/open_module.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "base/fork.h"
#include "base/log.h"
#include "base/module.h"

namespace rondo::transport::ucx {

namespace {

void told(bool serious, const char* text) {
  base::log(serious ? LogLevel::warn : LogLevel::info, "UCX: ", text);
}

StartFunction load(std::string& why) {
  why = notBuilt();
  if (!why.empty()) return nullptr;
  void* const module = base::openModule(kModuleFile, false, why);
  if (!module) return nullptr;
  const auto start = reinterpret_cast<StartFunction>(::dlsym(module, kModuleSymbol));
  why = start ? "" : std::string(kModuleFile) + " has another version";
  return start;
}

} // namespace

Module* openModule(std::string& why) {
  static std::mutex mutex;
  static std::atomic<Module*> module{nullptr};
  why.clear();
  if (Module* const known = module) return known;
  const StartFunction start = load(why); // not in a section, because it can take seconds
  if (!start) return nullptr;
  const base::NoFork together;
  const std::lock_guard lock(mutex);
  if (!module) module = start(told);
  return module;
}

std::string notBuilt() { return RONDO_UCX_MISSING; }

} // namespace rondo::transport::ucx
