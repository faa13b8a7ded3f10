// Loads the module of OpenSSL when TLS is first used.
#include "net/tls.h"

#include <dlfcn.h>

#include <mutex>
#include <optional>

#include "base/fork.h"
#include "base/module.h"
#include "rondo/error.h"

namespace rondo::net {

namespace {

struct Opened {
  tls::OpenFunction make = nullptr;
  std::string why;
};

Opened open() {
  Opened opened;
  opened.why = RONDO_TLS_MISSING;
  if (!opened.why.empty()) return opened;
  void* const module = base::openModule(tls::kModuleFile, false, opened.why);
  if (!module) return opened;
  opened.make = reinterpret_cast<tls::OpenFunction>(::dlsym(module, tls::kModuleSymbol));
  opened.why = opened.make ? "" : std::string(tls::kModuleFile) + " has another version";
  return opened;
}

Opened opened() {
  static std::mutex mutex;
  static std::optional<Opened> once;
  {
    const base::NoFork together;
    const std::lock_guard lock(mutex);
    if (once) return *once;
  }
  Opened now = open(); // not in a section, because it can take seconds
  const base::NoFork together;
  const std::lock_guard lock(mutex);
  if (!once) once = std::move(now);
  return *once;
}

} // namespace

std::string tlsMissing() { return opened().why; }

void requireTls(const std::string& what) {
  if (const std::string why = tlsMissing(); !why.empty())
    throw Error(ErrorCode::unsupported, what + ": this process cannot use TLS: " + why);
}

std::unique_ptr<Tls> makeTls(int fd, bool dials, const Key& key, std::uint64_t records_per_key) {
  requireTls("TLS");
  std::string why;
  const base::NoFork whole; // the first connection makes state that all connections share
  std::unique_ptr<Tls> made(opened().make({fd, dials, key, records_per_key}, why));
  if (!made) throw Error(ErrorCode::system, "libssl cannot make a connection: " + why);
  return made;
}

} // namespace rondo::net
