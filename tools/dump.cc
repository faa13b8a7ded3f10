// `rondo dump`: reads the last calls of running processes, from outside.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "observe/dump.h"
#include "rondo/error.h"
#include "tools/cli_values.h"
#include "tools/command.h"
#include "tools/command_options.h"
#include "tools/descriptor.h"
#include "tools/dump_links.h"
#include "tools/dump_processes.h"

namespace rondo::tools {

namespace {

constexpr std::chrono::milliseconds kLinkTime{500};

struct DumpConfig {
  std::vector<std::string> processes;
  std::string folder = ".";
  double interval = 0;
  std::uint64_t last = ~std::uint64_t{0};
  bool all() const { return processes == std::vector<std::string>{"all"}; }
};

std::string hostName() {
  std::array<char, 64> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "host";
}

/// If the processes have connections to other hosts, measures for a while what these carry.
LinkCounters linksOf(const std::vector<std::string>& pids) {
  LinkCounters links;
  links.read(pids);
  if (links.any()) {
    std::this_thread::sleep_for(kLinkTime);
    links.read(pids);
  }
  return links;
}

/// Writes the process's record into the folder, and prints the file's name.
FoundRecord::Why dumpOne(const std::string& pid, const LinkCounters& links,
                         const DumpConfig& config) {
  const FoundRecord found = findRecord(pid);
  if (!found.memory) return found.why;
  const std::string path = config.folder + "/rondo-" + hostName() + "-" + pid + "-" +
                           std::to_string(observe::beganIn(found.memory.get())) + "-request.jsonl";
  const std::string part = path + ".part";
  const Descriptor file(
      ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  int error = file ? 0 : errno;
  const char state = stateOf(pid);
  if (error == 0)
    error = observe::writeDump(found.memory.get(), file.get(), "request", state, config.last,
                               links.text(pid));
  if (error == 0 && ::rename(part.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(part.c_str());
    throw Error(ErrorCode::system, "cannot write " + path + ": " + std::strerror(error));
  }
  std::printf("process %s%s: %s\n", pid.c_str(), state == 'T' ? " (stopped)" : "", path.c_str());
  return found.why;
}

int noneFound() {
  std::fprintf(stderr, "rondo: no process of this user has a record of calls\n");
  return kFailure;
}

int dumpAll(const DumpConfig& config) {
  std::vector<std::string> pids = ownProcesses();
  std::erase_if(pids, [](const std::string& pid) { return !findRecord(pid).memory; });
  const LinkCounters links = linksOf(pids);
  int found = 0;
  for (const std::string& pid : pids)
    found += dumpOne(pid, links, config) == FoundRecord::Why::found;
  return found > 0 ? kSuccess : noneFound();
}

int dumpThese(const DumpConfig& config) {
  int status = kSuccess;
  const LinkCounters links = linksOf(config.processes);
  for (const std::string& pid : config.processes) {
    const FoundRecord::Why why = dumpOne(pid, links, config);
    if (why == FoundRecord::Why::found) continue;
    std::fprintf(stderr, "rondo: %s\n", reasonOf(pid, why).c_str());
    status = kFailure;
  }
  return status;
}

/// Says for each of the named processes without a record why it has none. Returns the status.
int complain(const DumpConfig& config) {
  int status = kSuccess;
  for (const std::string& pid : config.all() ? std::vector<std::string>{} : config.processes) {
    const FoundRecord found = findRecord(pid);
    if (found.memory) continue;
    std::fprintf(stderr, "rondo: %s\n", reasonOf(pid, found.why).c_str());
    status = kFailure;
  }
  return status;
}

/// Writes dumps to standard output, one after the other; with an interval, until its reader ends.
int dumpToOutput(const DumpConfig& config) {
  WatchedProcesses processes(config.all() ? std::vector<std::string>{} : config.processes);
  if (config.interval == 0) {
    const int status = complain(config);
    const Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    processes.write(nowhere.get(), 0);
    if (processes.haveLinks()) std::this_thread::sleep_for(kLinkTime);
    const int written = processes.write(STDOUT_FILENO, config.last);
    return written == 0 && status == kSuccess ? noneFound() : status;
  }
  // Writing alone would not show that the reader has ended while no process has a record.
  pollfd output{STDOUT_FILENO, 0, 0};
  do processes.write(STDOUT_FILENO, config.last);
  while (::poll(&output, 1, static_cast<int>(config.interval * 1000)) <= 0);
  return kSuccess;
}

} // namespace

Action addDump(CLI::App& parent, const std::vector<std::string>&) {
  auto config = std::make_shared<DumpConfig>();
  CLI::App* app = parent.add_subcommand("dump", "Write down the last calls of running processes");
  app->add_option("process", config->processes, "Process ids, or the word all")->required();
  app->add_option("-o,--output", config->folder, "Folder for the files; -: standard output")
      ->capture_default_str();
  app->add_option("--interval", config->interval,
                  "With -o -: dump every so many seconds, also processes that start later")
      ->check(CLI::Range(0.01, 3600.0))
      ->check(notNan());
  app->add_option("--last", config->last,
                  "Only this many of the last calls of each communicator, and those in flight")
      ->check(wholeNumber(std::uint64_t{0}));
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
    if (!config->all())
      std::for_each(config->processes.begin(), config->processes.end(), checkProcessId);
    if (config->folder == "-") return dumpToOutput(*config);
    if (config->interval != 0)
      throw Error(ErrorCode::invalid_argument, "--interval needs -o -: dumps to standard output");
    if (::mkdir(config->folder.c_str(), 0700) != 0 && errno != EEXIST)
      throw Error(ErrorCode::system,
                  "cannot make the folder " + config->folder + ": " + std::strerror(errno));
    return config->all() ? dumpAll(*config) : dumpThese(*config);
  };
}

} // namespace rondo::tools
