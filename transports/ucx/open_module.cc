// Opens librondo_ucx.so from the folder of this library or program, or else from the system's
// search path.
#include "transports/ucx/open_module.h"

#include <dlfcn.h>

#include <mutex>

#include "base/fork.h"
#include "base/log.h"
#include "base/module.h"

namespace rondo::transport::ucx {

namespace {

void told(bool serious, const char* text) {
  base::log(serious ? LogLevel::warn : LogLevel::info, "UCX: ", text);
}

struct Opened {
  Module* module = nullptr;
  std::string why;
};

Opened open() {
  Opened opened;
  opened.why = notBuilt();
  if (!opened.why.empty()) return opened;
  void* const module = base::openModule(kModuleFile, false, opened.why);
  if (!module) return opened;
  const auto start = reinterpret_cast<StartFunction>(::dlsym(module, kModuleSymbol));
  opened.why = start ? "" : std::string(kModuleFile) + " has another version";
  if (start) opened.module = start(told);
  return opened;
}

} // namespace

Module* openModule(std::string& why) {
  static std::mutex mutex;
  static Opened opened;
  const base::NoFork together;
  const std::lock_guard lock(mutex);
  if (!opened.module) opened = open();
  why = opened.why;
  return opened.module;
}

std::string notBuilt() { return RONDO_UCX_MISSING; }

} // namespace rondo::transport::ucx
