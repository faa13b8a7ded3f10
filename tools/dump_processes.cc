// Looks through /proc for memory files of Rondo.
#include "tools/dump_processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "base/read_file.h"
#include "observe/dump.h"
#include "rondo/error.h"

namespace rondo::tools {

namespace {

constexpr std::int64_t kKeepSeconds = 30;
/// Between two searches for records passes so many times the processor time that a search takes.
constexpr int kSearchPause = 19;

/// The names in a folder; errno tells why there are none.
std::vector<std::string> namesIn(const std::string& folder) {
  std::vector<std::string> names;
  errno = 0;
  DIR* const open = ::opendir(folder.c_str());
  if (!open) return names;
  while (const dirent* entry = ::readdir(open))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  ::closedir(open);
  return names;
}

/// Field `number` of /proc/PID/stat, counted from 3: the state. Empty if there is no such process.
std::string statField(const std::string& pid, int number) {
  // Reading fails if the process ends after the file was opened.
  const std::string text = base::readFile("/proc/" + pid + "/stat").value_or("");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= number; ++i) fields >> field;
  return field;
}
constexpr int kState = 3, kStarted = 22;

bool isRecord(int memory) {
  const Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  return observe::writeDump(memory, nowhere.get(), "request", 'R', 0) == 0;
}

/// Whether the process can write to the file. The owner of a record can; processes that read
/// records (another `rondo watch`) cannot.
bool canWrite(const std::string& pid, const std::string& descriptor) {
  std::ifstream file("/proc/" + pid + "/fdinfo/" + descriptor);
  std::string word;
  unsigned flags = O_RDONLY;
  while (file >> word)
    if (word == "flags:") file >> std::oct >> flags;
  return (flags & O_ACCMODE) == O_RDWR;
}

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// Of this thread.
std::chrono::nanoseconds processorTime() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

std::int64_t steadySeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1;
}

/// The user whose process this is; none if it has ended.
std::optional<uid_t> ownerOf(const std::string& pid) {
  struct stat info {};
  if (::stat(("/proc/" + pid).c_str(), &info) != 0) return std::nullopt;
  return info.st_uid;
}

/// The running processes of these users, except this one. Throws Error(system) without /proc.
std::vector<std::string> processesOf(const std::set<uid_t>& users) {
  std::vector<std::string> found;
  bool any = false;
  for (const std::string& name : namesIn("/proc")) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    any = true;
    const std::optional<uid_t> owner = ownerOf(name);
    if (owner && users.contains(*owner) && name != std::to_string(::getpid()))
      found.push_back(name);
  }
  if (!any) throw Error(ErrorCode::system, "cannot see any process: is /proc mounted here?");
  return found;
}

} // namespace

std::vector<std::string> ownProcesses() { return processesOf({::geteuid()}); }

void checkProcessId(const std::string& pid) {
  if (pid.empty() || pid.size() > 9 || pid.find_first_not_of("0123456789") != std::string::npos ||
      pid.starts_with('0'))
    throw Error(ErrorCode::invalid_argument,
                "'" + pid + "' is not a process id; write numbers, or the word all");
}

char stateOf(const std::string& pid) {
  const std::string state = statField(pid, kState);
  return state.empty() || state == "Z" ? 'X' : state[0];
}

FoundRecord findRecord(const std::string& pid) {
  const auto descriptors = namesIn("/proc/" + pid + "/fd");
  if (descriptors.empty())
    return {errno != 0 ? FoundRecord::Why::unreadable : FoundRecord::Why::no_record, {}, {}};
  for (const std::string& number : descriptors) {
    const std::string name = "/proc/" + pid + "/fd/" + number;
    std::array<char, 64> link{};
    if (::readlink(name.c_str(), link.data(), link.size() - 1) < 0 ||
        !std::string(link.data()).starts_with("/memfd:rondo") || !canWrite(pid, number))
      continue;
    Descriptor memory(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    // It may be another memory file of Rondo, or of another version.
    if (memory && isRecord(memory.get())) return {FoundRecord::Why::found, std::move(memory), name};
  }
  return {};
}

std::string reasonOf(const std::string& pid, FoundRecord::Why why) {
  const auto number = static_cast<pid_t>(std::strtol(pid.c_str(), nullptr, 10));
  if (::kill(number, 0) != 0 && errno == ESRCH) return "there is no process " + pid;
  if (why == FoundRecord::Why::unreadable)
    return "process " + pid +
           " cannot be inspected: it belongs to another user, or changed its user; run this "
           "command as that user or as root";
  return "process " + pid +
         " has no record of calls: it is a launcher and no rank, or has made no communicator of "
         "this version of Rondo";
}

/// A process that calls exec() keeps its number and its start, but loses the record.
char WatchedProcesses::stateOf(const std::string& pid, const Process& process) {
  struct stat now {
  }, known{};
  const bool same = statField(pid, kStarted) == process.started &&
                    ::stat(process.name.c_str(), &now) == 0 &&
                    ::fstat(process.memory.get(), &known) == 0 && now.st_ino == known.st_ino &&
                    now.st_dev == known.st_dev;
  return same ? tools::stateOf(pid) : 'X';
}

WatchedProcesses::WatchedProcesses(std::vector<std::string> pids, JobChoice choice)
    : pids_(std::move(pids)), choice_(std::move(choice)), users_{::geteuid()} {
  for (const std::string& pid : choice_.processes)
    if (const std::optional<uid_t> owner = ownerOf(pid)) users_.insert(*owner);
}

void WatchedProcesses::findNew() {
  const std::chrono::nanoseconds begin = processorTime();
  const bool search = Clock::now() >= search_;
  std::map<std::string, std::string> others;
  for (const std::string& pid : pids_.empty() ? processesOf(users_) : pids_) {
    const std::string started = statField(pid, kStarted);
    const auto [first, end] = processes_.equal_range(pid);
    if (started.empty() || std::any_of(first, end, [&](const auto& known) {
          return known.second.started == started && known.second.ended == 0;
        }))
      continue;
    const auto other = others_.find(pid);
    const bool skip = !search && other != others_.end() && other->second == started;
    FoundRecord found = skip ? FoundRecord() : findRecord(pid);
    if (found.memory)
      processes_.emplace(pid, Process{started, std::move(found.memory), found.name});
    else others[pid] = started;
  }
  others_ = std::move(others);
  if (search) search_ = Clock::now() + kSearchPause * (processorTime() - begin);
}

void WatchedProcesses::choose() {
  if (choice_.processes.empty() && choice_.job.empty()) return;
  jobs_.clear();
  std::map<const Process*, std::set<std::uint64_t>> jobs_of;
  for (const auto& [pid, process] : processes_) {
    const auto& own = jobs_of[&process] = observe::jobsIn(process.memory.get());
    if (choice_.processes.empty() || contains(choice_.processes, pid))
      jobs_.insert(own.begin(), own.end());
  }
  if (!choice_.job.empty()) {
    std::uint64_t number = 0;
    const char* const end = choice_.job.data() + choice_.job.size();
    const bool read = std::from_chars(choice_.job.data(), end, number, 16).ptr == end;
    std::erase_if(jobs_, [&](std::uint64_t job) { return !read || job != number; });
  }
  for (auto& [pid, process] : processes_) {
    const auto& own = jobs_of[&process];
    process.chosen =
        std::any_of(own.begin(), own.end(), [&](std::uint64_t job) { return jobs_.contains(job); });
  }
}

std::set<std::string> WatchedProcesses::jobs() const {
  std::set<std::string> numbers;
  for (const std::uint64_t job : jobs_) {
    std::array<char, 20> text{};
    std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(job));
    numbers.insert(text.data());
  }
  return numbers;
}

int WatchedProcesses::write(int to, std::uint64_t calls) {
  findNew();
  choose();
  std::vector<std::string> alive;
  for (const auto& [pid, process] : processes_)
    if (process.ended == 0 && process.chosen) alive.push_back(pid);
  links_.read(alive);
  int written = 0;
  for (auto at = processes_.begin(); at != processes_.end();) {
    auto& [pid, process] = *at;
    const char state = stateOf(pid, process);
    if (state == 'X' && process.ended == 0) process.ended = steadySeconds();
    if (process.ended != 0 && steadySeconds() - process.ended > kKeepSeconds) {
      at = processes_.erase(at);
      continue;
    }
    if (!process.chosen) {
      ++at;
      continue;
    }
    const std::string links = state == 'X' ? "" : links_.text(pid);
    const int error = observe::writeDump(process.memory.get(), to, "request", state, calls, links);
    if (error != 0 && error != EPROTO)
      throw Error(ErrorCode::system, std::string("cannot write a dump: ") + std::strerror(error));
    written += error == 0;
    ++at;
  }
  return written;
}

} // namespace rondo::tools
