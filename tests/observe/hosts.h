// Emulated hosts, for tests of commands.
#pragma once

#include <string>
#include <vector>

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

/// Runs shell code beside a job, which `launch` starts, in a new folder, once so many ranks have
/// printed "ready RANK PID"; $PIDS has their numbers. Returns the lines that the code printed.
inline std::vector<std::string> linesBeside(const std::string& launch, int ranks,
                                            const std::string& code) {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell("cd " + folder.file("") + "\n" + launch +
            " >ready 2>err &\nJOB=$!\nfor TRY in $(seq 600); do\n  [ $(grep -c ready ready) = " +
            std::to_string(ranks) + " ] && break\n  sleep 0.1\ndone\n" +
            "PIDS=$(sed -n 's/^ready . //p' ready)\n" + code + "\nkill $JOB; wait\n");
  INFO(outcome.out << outcome.err << readFile(folder.file("err")));
  return linesOf(outcome.out);
}

} // namespace rondo::test
