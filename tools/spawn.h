// Starts the ranks of a job as processes of this machine, watches over them, and ends with them.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace rondo::tools {

/// Signals so close to each other ask once: timeout(1) and batch systems tell a launcher, then its
/// whole process group, and a launcher passes on what its ranks may have had already.
inline constexpr std::chrono::milliseconds kOneAsking{1000};

struct SpawnOptions {
  int ranks = 2;
  std::vector<std::string> command; ///< program (searched in PATH) and its arguments
  bool tag = false;                 ///< lines of the ranks' output start with "[rank] "
  std::string bind = {};            ///< as RONDO_BIND, which counts where this is empty
  bool report_status = true;        ///< name on stderr the first rank with a status that is not 0
  /// How long the other ranks may go on once one has failed or a signal came; then SIGTERM, and a
  /// second later SIGKILL.
  std::chrono::milliseconds grace{5000};
  /// After a signal the ranks may take as long as they need, until one of them has failed or a
  /// signal comes again, which kills them.
  bool patient = false;
};

/// Runs the command as all ranks, which find each other by Rendezvous::environment(); returns when
/// all have ended. SIGINT, SIGTERM and SIGHUP are passed on. The ranks are killed when this process
/// dies. Returns 0 if every rank did, else the status of the first that a signal killed (128 + its
/// number), or if there is none, of the first that failed (127 if the program cannot be started).
/// That rank is named on stderr (with report_status off only one killed by a signal).
/// Throws Error(system | init_failed).
int spawnRanks(const SpawnOptions& options);

/// This program, for starting it again.
std::string ownExecutable();

} // namespace rondo::tools
