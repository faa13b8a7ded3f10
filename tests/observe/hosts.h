// Emulated hosts, for tests of commands.
#pragma once

#include <string>

#include "support/paths.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {

inline const std::string kHosts = RONDO_SOURCE_DIR "/tests/support/shaped_network ";

/// Whether this machine can emulate hosts; says why not.
inline bool hasHosts() {
  if (shell(kHosts + "--probe").status == 0) return true;
  WARN("not run: it needs root, for network namespaces");
  return false;
}

} // namespace rondo::test
