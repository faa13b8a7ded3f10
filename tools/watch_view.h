// What `rondo watch` shows: the ranks that it sees, their calls, rates, and what is wrong.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/dump_processes.h"
#include "tools/report_judge.h"
#include "tools/report_read.h"
#include "tools/watch_remote.h"

namespace rondo::tools {

struct WatchConfig {
  std::vector<std::string> processes; ///< whose jobs to show; empty: all jobs
  std::vector<std::string> commands;  ///< whose output is the dumps of other hosts
  std::string job;                    ///< only this one
  double interval = 1, patience = 3;  ///< seconds
};

/// A rank of a communicator, since the last look.
struct RankView {
  const RecordedRank* rank = nullptr;
  const RecordedCall* call = nullptr; ///< in flight; null: none
  std::vector<int> waits_for = {};    ///< ranks, if it waits
  double call_seconds = 0;            ///< time in the call
  RecordedTotal total = {};
  double calls = 0, bytes = 0, bus_bytes = 0; ///< a second
};

struct CommunicatorView {
  std::string id, transports;
  int size = 0;
  std::vector<RankView> ranks = {};
  std::vector<int> unseen = {}; ///< ranks on other hosts
  std::vector<Finding> findings = {};
};

struct JobView {
  std::shared_ptr<const Dumps> dumps; ///< to which the views refer
  std::vector<CommunicatorView> communicators = {};
  bool ended = false; ///< all processes that were seen have ended
};

struct View {
  std::int64_t time = 0; ///< nanoseconds since 1970
  std::vector<JobView> jobs;
  std::vector<std::string> troubles; ///< of the watch itself
};

/// "host" and "pid" of "host:pid".
std::pair<std::string, std::string> placeOf(const RecordedRank& rank);

/// Looks at processes again and again. The processes do nothing for it.
class Watch {
 public:
  explicit Watch(const WatchConfig& config);
  View look();
  /// Waits for the first dump of each command of the configuration; at most 10 s, and not for a
  /// command that has ended.
  void awaitCommands();

  /// A straggler or a slow link is shown once so many looks in a row have found it.
  static constexpr int kLooksOfSlow = 3;
  /// Whether the last look found one that is not shown yet.
  bool suspects() const;

 private:
  using Key = std::tuple<std::string, std::string, int>; ///< job, communicator and rank
  /// Job, communicator, kind of the finding, and the lower and the higher of culprit and peer.
  using Trouble = std::tuple<std::string, std::string, std::string, int, int>;
  struct Before {
    std::int64_t time = 0;
    std::map<std::string, RecordedTotal> totals;
    double calls = 0, bytes = 0, bus_bytes = 0;
    bool seen = false; ///< in this look
  };

  std::vector<ProcessDump> read(View& view);
  std::vector<std::string> jobsOf(const std::vector<ProcessDump>& dumps) const;
  JobView viewOf(Dumps dumps);
  CommunicatorView viewOf(const Dumps& dumps, const std::string& id);
  RankView viewOf(const RecordedRank& rank);
  void keepLasting(View& view);
  View lookOnce();

  const WatchConfig config_;
  WatchedProcesses processes_;
  std::vector<std::unique_ptr<DumpStream>> streams_;
  Descriptor dumps_; ///< a memory file for the dumps of this host
  std::map<Key, Before> before_;
  std::map<Trouble, int> slow_; ///< stragglers and slow links: for how many looks in a row
  std::map<Key, bool> dead_;    ///< of the last look
};

} // namespace rondo::tools
