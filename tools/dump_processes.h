// Finds the processes that have a record of calls, and reads it from outside.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/descriptor.h"
#include "tools/dump_links.h"

namespace rondo::tools {

/// The running processes of this user, except this one. Throws Error(system) without /proc.
std::vector<std::string> ownProcesses();

/// Throws Error(invalid_argument) if the text is not the number of a process.
void checkProcessId(const std::string& pid);

struct FoundRecord {
  enum class Why { found, no_record, unreadable };
  Why why = Why::no_record;
  Descriptor memory; ///< of a found record. It stays readable after the end of the process.
  std::string name;  ///< of the memory in /proc
};
/// The record that the process writes, not one that it only reads.
FoundRecord findRecord(const std::string& pid);

/// Why there is no record, for people.
std::string reasonOf(const std::string& pid, FoundRecord::Why why);

/// The process's state as in /proc/PID/stat: 'R', 'S', 'T', ...; 'X': it has ended.
char stateOf(const std::string& pid);

/// Which jobs to read.
struct JobChoice {
  std::vector<std::string> processes = {}; ///< the jobs of these; empty: all jobs
  std::string job = {};                    ///< only this one, by its number in dumps; empty: all
};

/// Processes whose records are read again and again, also after they have ended. Processes without
/// a record are searched for one for at most a twentieth of a processor's time: beside processes
/// that have thousands of descriptors, a rank may be found some looks late.
class WatchedProcesses {
 public:
  /// `pids`: these; empty: all processes of this user and of the users whose processes the choice
  /// names, also those that start later.
  explicit WatchedProcesses(std::vector<std::string> pids, JobChoice choice = {});

  /// Writes a dump of each process that has a communicator of a chosen job to `to`, with the last
  /// `calls` calls of each communicator. A process that has ended is in the dumps of the next 30
  /// seconds, with state 'X'. From the second time on they say what the processes' links did since
  /// the time before. Returns how many dumps it wrote. Throws Error(system) if `to` cannot be
  /// written.
  int write(int to, std::uint64_t calls);

  /// Whether they had connections to other hosts at the last write().
  bool haveLinks() const { return links_.any(); }

  /// The chosen jobs at the last write(), by their numbers in dumps; empty if all are chosen.
  std::set<std::string> jobs() const;

 private:
  struct Process {
    std::string started; ///< when, as /proc tells it: tells apart processes of the same number
    Descriptor memory;
    std::string name;       ///< of the memory in /proc
    std::int64_t ended = 0; ///< seconds; 0: it runs
    bool chosen = true;
  };
  using Clock = std::chrono::steady_clock;

  static char stateOf(const std::string& pid, const Process& process);
  void findNew();
  void choose();

  const std::vector<std::string> pids_;
  const JobChoice choice_;
  std::set<uid_t> users_;                         ///< whose processes to search
  std::multimap<std::string, Process> processes_; ///< by number
  std::map<std::string, std::string> others_;     ///< processes without a record: when they started
  Clock::time_point search_;                      ///< when to look again whether these have one
  std::set<std::uint64_t> jobs_;                  ///< the chosen ones, if not all are
  LinkCounters links_;
};

} // namespace rondo::tools
