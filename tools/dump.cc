// `rondo dump`: reads the last calls of running processes, from outside.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "observe/dump.h"
#include "rondo/error.h"
#include "tools/command.h"
#include "tools/descriptor.h"

namespace rondo::tools {

namespace {

struct DumpConfig {
  std::vector<std::string> processes;
  std::string folder = ".";
};

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

/// The process's state as in /proc/PID/stat: 'R', 'S', 'T', ...
char stateOf(const std::string& process) {
  std::ifstream file(process + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() ? text[name_end + 2] : '?';
}

std::string hostName() {
  std::array<char, 64> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "host";
}

enum class Found { record, no_record, unreadable };

/// Writes the process's record into `folder`, and prints the file's name.
Found dumpOne(const std::string& pid, const std::string& folder) {
  const std::string process = "/proc/" + pid;
  const auto descriptors = namesIn(process + "/fd");
  if (descriptors.empty()) return errno != 0 ? Found::unreadable : Found::no_record;
  const std::string path = folder + "/rondo-" + hostName() + "-" + pid + "-request.jsonl";
  const std::string part = path + ".part";
  for (const std::string& number : descriptors) {
    const std::string name = process + "/fd/" + number;
    std::array<char, 64> link{};
    if (::readlink(name.c_str(), link.data(), link.size() - 1) < 0 ||
        !std::string(link.data()).starts_with("/memfd:rondo"))
      continue;
    const Descriptor memory(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!memory) continue;
    Descriptor file(
        ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    int error = file ? 0 : errno;
    const char state = stateOf(process);
    if (error == 0) error = observe::writeDump(memory.get(), file.get(), "request", state);
    if (error == 0 && ::rename(part.c_str(), path.c_str()) != 0) error = errno;
    if (error != 0) ::unlink(part.c_str());
    if (error == EPROTO) continue; // another memory file of Rondo, or of another version
    if (error != 0)
      throw Error(ErrorCode::system, "cannot write " + path + ": " + std::strerror(error));
    std::printf("process %s%s: %s\n", pid.c_str(), state == 'T' ? " (stopped)" : "", path.c_str());
    return Found::record;
  }
  return Found::no_record;
}

/// The running processes of this user, except this one.
std::vector<std::string> ownProcesses() {
  std::vector<std::string> own;
  for (const std::string& name : namesIn("/proc")) {
    struct stat info {};
    if (name.find_first_not_of("0123456789") == std::string::npos &&
        name != std::to_string(::getpid()) && ::stat(("/proc/" + name).c_str(), &info) == 0 &&
        info.st_uid == ::geteuid())
      own.push_back(name);
  }
  if (own.empty()) throw Error(ErrorCode::system, "cannot see any process: is /proc mounted here?");
  return own;
}

int dumpAll(const std::string& folder) {
  int found = 0;
  for (const std::string& pid : ownProcesses()) found += dumpOne(pid, folder) == Found::record;
  if (found > 0) return kSuccess;
  std::fprintf(stderr, "rondo: no process of this user has a record of calls\n");
  return kFailure;
}

/// Why there was no dump.
std::string reason(const std::string& pid, Found found) {
  const auto number = static_cast<pid_t>(std::strtol(pid.c_str(), nullptr, 10));
  if (::kill(number, 0) != 0 && errno == ESRCH) return "there is no process " + pid;
  if (found == Found::unreadable)
    return "process " + pid +
           " cannot be inspected: it belongs to another user, or changed its user; run this "
           "command as that user or as root";
  return "process " + pid +
         " has no record of calls: it has made no communicator of this version "
         "of Rondo";
}

int dumpThese(const DumpConfig& config) {
  int status = kSuccess;
  for (const std::string& pid : config.processes) {
    if (pid.empty() || pid.size() > 9 || pid.find_first_not_of("0123456789") != std::string::npos ||
        pid.starts_with('0'))
      throw Error(ErrorCode::invalid_argument,
                  "'" + pid + "' is not a process id; write numbers, or the word all");
    const Found found = dumpOne(pid, config.folder);
    if (found == Found::record) continue;
    std::fprintf(stderr, "rondo: %s\n", reason(pid, found).c_str());
    status = kFailure;
  }
  return status;
}

} // namespace

Action addDump(CLI::App& parent, const std::vector<std::string>&) {
  auto config = std::make_shared<DumpConfig>();
  CLI::App* app = parent.add_subcommand("dump", "Write down the last calls of running processes");
  app->add_option("process", config->processes, "Process ids, or the word all")->required();
  app->add_option("-o,--output", config->folder, "Folder for the files")->capture_default_str();
  app->footer(
      "Every process with Rondo keeps its last calls in memory. This command reads them from\n"
      "outside: the process takes no part in it, and may be stopped or hang. It must belong to "
      "the\n"
      "same user. `rondo report` shows what the dumps of all ranks say together. Run this command\n"
      "on each machine of the job, within some seconds.\n"
      "Exit status: 0; 1 if a process has no record of calls.\n\n"
      "Examples:\n"
      "  rondo dump all -o dumps && rondo report dumps\n"
      "  rondo dump 4711 4712\n");
  return [config] {
    if (::mkdir(config->folder.c_str(), 0700) != 0 && errno != EEXIST)
      throw Error(ErrorCode::system,
                  "cannot make the folder " + config->folder + ": " + std::strerror(errno));
    if (config->processes == std::vector<std::string>{"all"}) return dumpAll(config->folder);
    return dumpThese(*config);
  };
}

} // namespace rondo::tools
