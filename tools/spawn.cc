// Implements spawnRanks(): the launcher's process, and the supervisor's process that it starts.
#include "tools/spawn.h"

#include <poll.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "rondo/error.h"
#include "tools/command.h"
#include "tools/descriptor.h"
#include "tools/spawn_job.h"
#include "tools/spawn_processes.h"
#include "tools/spawn_signals.h"
#include "topology/bind.h"
#include "topology/system.h"

namespace rondo::tools {

namespace {

/// The processors of each rank; empty if ranks are not bound.
std::vector<topology::Processors> placesFor(const SpawnOptions& options) {
  const char* set = std::getenv("RONDO_BIND");
  const std::string words = !options.bind.empty() ? options.bind : set ? set : "";
  const auto rule = topology::parseBind(words, options.bind.empty() ? "RONDO_BIND" : "--bind");
  const topology::Processors allowed = topology::ownProcessors();
  if (rule.to == topology::BindRule::To::none || allowed.empty()) return {};
  auto places = topology::bindings(topology::systemMachine(allowed), rule, allowed, options.ranks);
  for (const topology::Processors& place : places)
    if (!topology::contains(allowed, place))
      throw Error(ErrorCode::invalid_argument,
                  "ranks cannot be bound to processors " + topology::text(place) +
                      ": this command may use " + topology::text(allowed));
  return places;
}

/// The children that this process had before it starts the job.
std::vector<pid_t> children() {
  siginfo_t info;
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return {}; // the usual case
  std::vector<pid_t> own;
  const Descendants all = descendants();
  for (const auto* list : {&all.here, &all.outside})
    for (const Process& one : *list)
      if (one.parent == getpid()) own.push_back(one.id);
  return own;
}

/// Runs in the supervisor's process, the ranks' parent, which outlives them. It is not in the
/// launcher's process group, so it gets each signal only once, from the launcher.
int supervise(const Job::Settings& settings) {
  setpgid(0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  try {
    return Job(settings).run();
  } catch (const std::exception& error) {
    endDescendants({.groups = {}, .except = {}, .wait = [] { return true; }});
    return reportError(error);
  }
}

/// Runs in the launcher's own process: passes signals on, and ends when the supervisor ends.
class Launcher {
 public:
  Launcher(pid_t supervisor, const SignalWatch& signals, std::vector<pid_t> others)
      : supervisor_(supervisor), signals_(signals), others_(std::move(others)) {}

  int wait() {
    for (;;) {
      pollfd signals = {signals_.fd(), POLLIN, 0};
      poll(&signals, 1, -1);
      while (const int signal = signals_.read())
        if (signal != SIGCHLD) kill(supervisor_, signal);
      int status = 0;
      while (waitpid(supervisor_, &status, WNOHANG | WUNTRACED) == supervisor_) {
        if (WIFEXITED(status)) return WEXITSTATUS(status);
        if (WIFSIGNALED(status)) return endWithout(WTERMSIG(status));
        stopBy(WSTOPSIG(status));
      }
    }
  }

 private:
  /// The supervisor has stopped the ranks and itself. Stops this process too, so that the shell
  /// notices.
  void stopBy(int signal) {
    SignalWatch::stopBy(signal);
    sigset_t pending;
    sigpending(&pending);
    // A process whose shell has ended cannot stop. The terminal that a rank waits for no longer
    // exists either, so the job ends.
    if (!sigismember(&pending, SIGCONT) && (signal == SIGTTIN || signal == SIGTTOU))
      kill(supervisor_, SIGHUP);
    kill(supervisor_, SIGCONT);
  }

  /// The supervisor was killed, and the ranks died with it. Ends the processes that they started,
  /// which are now children of this process.
  int endWithout(int signal) {
    std::fprintf(stderr,
                 "rondo: the process that watched over the ranks (pid %d) was killed by signal %d "
                 "(%s): killing the ranks\n",
                 static_cast<int>(supervisor_), signal, strsignal(signal));
    const auto pause = [] {
      constexpr int kMilliseconds = 20;
      poll(nullptr, 0, kMilliseconds);
      return true;
    };
    endDescendants({.groups = {}, .except = others_, .wait = pause});
    return 128 + signal;
  }

  const pid_t supervisor_;
  const SignalWatch& signals_;
  const std::vector<pid_t> others_; ///< children that do not belong to the job
};

/// The path of this program.
std::string ownExecutable() {
  const std::string link = "/proc/self/exe";
  std::array<char, 4096> path;
  const ssize_t size = readlink(link.c_str(), path.data(), path.size());
  if (size > 0 && static_cast<std::size_t>(size) < path.size()) {
    std::string own(path.data(), static_cast<std::size_t>(size));
    // If the program's file was replaced while it runs, the link still leads to the old one.
    return access(own.c_str(), X_OK) == 0 ? own : link;
  }
  // /proc is not mounted: the name by which the system found this program.
  const auto* name = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (name != nullptr && access(name, X_OK) == 0) return std::filesystem::absolute(name);
  throw Error(ErrorCode::system,
              "cannot find this program's own file, which the ranks are to run: that needs /proc, "
              "which is not mounted. Mount it, or call this program by its full path");
}

} // namespace

int spawnRanks(const SpawnOptions& options) {
  const auto places = placesFor(options);
  const auto others = children();
  const SignalWatch signals; // before the job's thread begins, which must not receive the signals
  auto [ending, own] = makePipe();
  const pid_t group = getpgrp();
  prctl(PR_SET_CHILD_SUBREAPER, 1); // adopts the ranks' processes if the supervisor is killed
  const pid_t supervisor = fork();
  if (supervisor < 0)
    throw Error(ErrorCode::system,
                std::string("cannot start a process for the ranks: ") + std::strerror(errno));
  if (supervisor == 0) {
    own = {}; // so that the pipe ends with the launcher
    _exit(supervise({options, signals, places, ending, group}));
  }
  setpgid(supervisor, supervisor);
  ending = {};
  return Launcher(supervisor, signals, others).wait();
}

SpawnOptions ownRanks(int ranks, const std::vector<std::string>& arguments) {
  SpawnOptions spawn;
  spawn.ranks = ranks;
  spawn.command = {ownExecutable()};
  spawn.command.insert(spawn.command.end(), arguments.begin(), arguments.end());
  spawn.report_status = false;
  return spawn;
}

} // namespace rondo::tools
