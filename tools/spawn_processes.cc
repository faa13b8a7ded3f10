// Finds and ends the processes that ranks started and left running.
#include "tools/spawn_processes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "base/read_file.h"

namespace rondo::tools {

namespace {

using Clock = std::chrono::steady_clock;

/// Time for each stage: to end without a signal, after SIGTERM, and after SIGKILL.
constexpr std::chrono::milliseconds kStage{1000};

/// Reads a process's folder in /proc. Returns nullopt for a process that has ended.
std::optional<Process> processAt(const std::filesystem::path& folder) {
  // Reading fails if the process ends after the file was opened.
  const std::string text = base::readFile(folder / "stat").value_or("");
  // "17 (name) S 1 17 17 ...": the name may hold brackets and blanks.
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  Process process;
  process.name = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  char state = 0;
  pid_t group = -1;
  rest >> state >> process.parent >> group >> process.session;
  std::string skipped;
  for (int i = 0; i < 13; ++i) rest >> skipped;
  int threads = 0;
  rest >> threads;
  // A process whose first thread has ended looks like a zombie, but has other threads.
  if (!rest || state == 'X' || (state == 'Z' && threads <= 1)) return {};
  process.id = static_cast<pid_t>(std::atoi(text.c_str()));
  return process;
}

/// All processes; none where /proc is not mounted, or shows another process namespace.
std::unordered_map<pid_t, Process> allProcesses() {
  std::unordered_map<pid_t, Process> all;
  std::error_code fault;
  std::filesystem::directory_iterator entry("/proc", fault);
  for (; !fault && entry != std::filesystem::directory_iterator(); entry.increment(fault)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (auto process = processAt(entry->path())) all.emplace(process->id, std::move(*process));
  }
  const auto self = std::filesystem::read_symlink("/proc/self", fault);
  if (fault || self != std::to_string(getpid())) all.clear();
  return all;
}

std::string listed(const std::vector<Process>& processes) {
  std::string text;
  for (const Process& one : processes)
    text += (text.empty() ? "pid " : ", pid ") + std::to_string(one.id) + " (" + one.name + ")";
  return text;
}

void report(const Descendants& left) {
  if (!left.listed) {
    std::fputs(
        "rondo: processes that ranks started are still running, and cannot be listed: that needs "
        "/proc, which is not mounted\n",
        stderr);
    return;
  }
  if (!left.here.empty())
    std::fprintf(stderr, "rondo: processes that ranks started could not be killed: %s\n",
                 listed(left.here).c_str());
  if (!left.outside.empty())
    std::fprintf(stderr,
                 "rondo: still running in a session of their own, where ranks started them: %s\n",
                 listed(left.outside).c_str());
}

void send(int signal, const Descendants& left, const std::vector<pid_t>& groups) {
  for (const Process& one : left.here) kill(one.id, signal);
  if (left.listed) return;
  for (const pid_t group : groups) kill(-group, signal);
}

} // namespace

Descendants descendants(const std::vector<pid_t>& except) {
  const auto all = allProcesses();
  const pid_t self = getpid(), session = getsid(0);
  Descendants found;
  found.listed = all.contains(self);
  for (const auto& [id, process] : all) {
    if (id == self) continue;
    pid_t above = id;
    // The number of steps is limited: a list that changes while it is read may contain a cycle.
    for (std::size_t steps = 0; above != self && steps < all.size(); ++steps) {
      const auto at = all.find(above);
      if (at == all.end() || std::count(except.begin(), except.end(), above) > 0) break;
      above = at->second.parent;
    }
    if (above == self) (process.session == session ? found.here : found.outside).push_back(process);
  }
  for (auto* list : {&found.here, &found.outside})
    std::sort(list->begin(), list->end(),
              [](const Process& a, const Process& b) { return a.id < b.id; });
  return found;
}

bool hasChildren() {
  pid_t ended;
  do ended = waitpid(-1, nullptr, WNOHANG);
  while (ended > 0 || (ended < 0 && errno == EINTR));
  return ended == 0;
}

void endDescendants(const EndOptions& options) {
  bool hurry = options.wait();
  Descendants left;
  const auto ended = [&] {
    if (!hasChildren()) return true;
    left = descendants(options.except);
    return left.listed && left.here.empty();
  };
  for (const int signal : {0, SIGTERM, SIGKILL}) {
    const Clock::time_point limit = Clock::now() + kStage;
    for (bool first = true; Clock::now() < limit && (!hurry || signal == SIGKILL); first = false) {
      if (ended()) return left.outside.empty() ? void() : report(left);
      // SIGKILL is repeated: a killed process may have started another one just before.
      if (signal == SIGKILL || (signal != 0 && first)) send(signal, left, options.groups);
      hurry = options.wait() || hurry;
    }
  }
  if (!ended() || !left.outside.empty()) report(left);
}

} // namespace rondo::tools
