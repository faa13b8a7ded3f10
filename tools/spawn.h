// Starts the ranks of a job as processes of this machine, supervises them, and returns their
// status.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace rondo::tools {

/// Ending signals within this time count as one request: timeout(1) and batch systems signal a
/// launcher and then its whole process group, and a launcher passes on signals that its ranks may
/// already have received.
inline constexpr std::chrono::milliseconds kOneAsking{1000};

/// Exit status of a rank that SIGINT or SIGTERM has asked to end, as shells report SIGINT.
inline constexpr int kStopped = 130;

struct SpawnOptions {
  int ranks = 2;
  std::vector<std::string> command; ///< program (searched in PATH) and its arguments
  bool tag = false;                 ///< lines of the ranks' output start with "[rank] "
  std::string bind = {};            ///< as RONDO_BIND, which is used if this is empty
  /// Printed before each line that says how a rank ended: clears a progress bar of the ranks.
  const char* line_begin = "";
  bool report_status = true; ///< name on stderr the first rank with a status that is not 0
  /// So many times in all, a rank that was killed or has failed is started again, with RONDO_JOIN=1
  /// in its environment: it must join the others, which go on. None is started if all others
  /// end too, or after status kUsage or kStopped, which concern all ranks.
  int restarts = 0;
  /// Not 0: the job goes on, and can still succeed, as long as so many ranks are left or have ended
  /// with 0. After kUsage or kStopped the job ends, as with 0.
  int least = 0;
  /// How long the other ranks may go on once one has failed or a signal came; then SIGTERM, and a
  /// second later SIGKILL.
  std::chrono::milliseconds grace{5000};
  /// After a signal the ranks may take as long as they need, until one of them has failed (with
  /// another status than kStopped) or a signal comes again, which kills them.
  bool patient = false;
};

/// Runs the command as all ranks, which find each other by Rendezvous::environment(); returns when
/// all have ended. Returns 0 if every rank did, else the status of the first that a signal killed
/// (128 + its number), or if there is none, of the first that failed (127 if the program cannot be
/// started). That rank is named on stderr (with report_status off only one killed by a signal).
///
/// Processes. Each rank is a process group of its own, so a signal also reaches what the rank
/// started, as the program that a shell runs. Nothing outlives the job but processes that have made
/// themselves a session (setsid), which stderr names: what ranks leave running has a second to end
/// by itself, then SIGTERM, and a second later SIGKILL. The ranks' parent is a second process, the
/// supervisor. If the launcher is killed, the supervisor kills all of these at once, and if the
/// supervisor is killed, the launcher does. (Where /proc is not mounted, processes that have left
/// the ranks' groups cannot be found.)
///
/// Signals. SIGINT, SIGTERM, SIGHUP and SIGQUIT ask the job to end, and are passed on; SIGUSR1,
/// SIGUSR2, SIGWINCH and SIGCONT are passed on only. SIGTSTP (Ctrl-Z) stops the ranks, then this
/// process. Signals that are ignored when this is called (nohup) stay ignored.
///
/// Terminal. All ranks have this process's standard input. One that reads from the terminal becomes
/// its foreground group until another one does; until it ends, Ctrl-C reaches this rank alone, and
/// the others when it dies of that.
///
/// For one caller at a time, of a process without children that it waits for. Throws Error(system |
/// invalid_argument); what is wrong later is said on stderr, and the status as of reportError().
int spawnRanks(const SpawnOptions& options);

/// To run this program again as all ranks, which report their errors themselves. Throws
/// Error(system) if /proc is not mounted and the program's file was moved.
SpawnOptions ownRanks(int ranks, const std::vector<std::string>& arguments);

} // namespace rondo::tools
