// Reads the dumps of all processes, and compares them with those of the last look.
#include "tools/watch_view.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <exception>
#include <set>
#include <sstream>
#include <thread>

#include "rondo/collectives.h"
#include "rondo/error.h"
#include "tools/bench/shape.h"

namespace rondo::tools {

namespace {

/// So many calls show what differs and who is late; all 2048 would cost more time than they tell.
constexpr std::uint64_t kLastCalls = 128;
/// Rates are taken over at least this time.
constexpr std::int64_t kLeastTime = 50'000'000;
constexpr std::chrono::milliseconds kSecondLook{200};

std::int64_t wallClock() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Descriptor memoryFile() {
  Descriptor file(::memfd_create("rondo-watch", MFD_CLOEXEC));
  if (!file)
    throw Error(ErrorCode::system,
                std::string("cannot make a memory file: ") + std::strerror(errno));
  return file;
}

std::string readAll(int file) {
  std::string text(static_cast<std::size_t>(std::max<off_t>(::lseek(file, 0, SEEK_END), 0)), 0);
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got =
        ::pread(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return text;
}

double busBytes(const std::string& collective, std::uint64_t bytes, int ranks) {
  for (const Collective one : kCollectives)
    if (traits(one).name == collective)
      return busFactor(one, ranks).value_or(0) * static_cast<double>(bytes);
  return 0;
}

} // namespace

std::pair<std::string, std::string> placeOf(const RecordedRank& rank) {
  const auto colon = rank.process.rfind(':');
  if (colon == std::string::npos) return {rank.process, ""};
  return {rank.process.substr(0, colon), rank.process.substr(colon + 1)};
}

Watch::Watch(const WatchConfig& config)
    : config_(config), processes_({}, {config.processes, config.job}), dumps_(memoryFile()) {
  for (const std::string& command : config.commands)
    streams_.push_back(std::make_unique<DumpStream>(command));
}

std::vector<ProcessDump> Watch::read(View& view) {
  if (::ftruncate(dumps_.get(), 0) != 0 || ::lseek(dumps_.get(), 0, SEEK_SET) != 0)
    throw Error(ErrorCode::system, std::string("ftruncate: ") + std::strerror(errno));
  processes_.write(dumps_.get(), kLastCalls);
  std::string text = readAll(dumps_.get());
  for (const auto& stream : streams_) {
    text += stream->latest();
    if (const std::string trouble = stream->trouble(); !trouble.empty())
      view.troubles.push_back(trouble);
  }
  std::vector<ProcessDump> dumps;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t last = text.find("\n{\"end\"", begin);
    const std::size_t end = last == std::string::npos ? last : text.find('\n', last + 1);
    std::istringstream lines(text.substr(begin, end == std::string::npos ? end : end + 1 - begin));
    begin = end == std::string::npos ? text.size() : end + 1;
    try {
      dumps.push_back(readDump(lines, "a dump"));
    } catch (const std::exception& error) {
      view.troubles.push_back(std::string("a dump cannot be read: ") + error.what());
    }
  }
  return dumps;
}

std::vector<std::string> Watch::jobsOf(const std::vector<ProcessDump>& dumps) const {
  // Process numbers of other hosts, or of other process namespaces, mean other processes.
  const std::set<std::string> named = processes_.jobs();
  std::set<std::string> jobs;
  for (const ProcessDump& dump : dumps)
    for (const RecordedRank& rank : dump.ranks) {
      const bool chosen = config_.processes.empty() || named.contains(rank.job);
      if (chosen && (config_.job.empty() || config_.job == rank.job)) jobs.insert(rank.job);
    }
  return {jobs.begin(), jobs.end()};
}

RankView Watch::viewOf(const RecordedRank& rank) {
  RankView view{.rank = &rank, .call = rank.ended ? nullptr : inFlight(rank)};
  if (view.call) {
    view.call_seconds = static_cast<double>(rank.time - view.call->created) * 1e-9;
    for (const RecordedWait& wait : rank.waits)
      if (wait.number == view.call->number && wait.peer >= 0) view.waits_for.push_back(wait.peer);
    std::sort(view.waits_for.begin(), view.waits_for.end());
    view.waits_for.erase(std::unique(view.waits_for.begin(), view.waits_for.end()),
                         view.waits_for.end());
  }
  for (const auto& [kind, total] : rank.totals)
    view.total.calls += total.calls, view.total.bytes += total.bytes;
  const auto [found, first] = before_.try_emplace({rank.job, rank.communicator, rank.rank});
  Before& before = found->second;
  const std::int64_t passed = rank.time - before.time;
  if (!first && passed >= kLeastTime) {
    const double rate = 1e9 / static_cast<double>(passed);
    before.calls = before.bytes = before.bus_bytes = 0;
    for (const auto& [kind, total] : rank.totals) {
      const RecordedTotal was = before.totals[kind];
      const std::uint64_t bytes = total.bytes - std::min(was.bytes, total.bytes);
      before.calls += static_cast<double>(total.calls - std::min(was.calls, total.calls)) * rate;
      before.bytes += static_cast<double>(bytes) * rate;
      before.bus_bytes += busBytes(kind, bytes, rank.size) * rate;
    }
  }
  if (!first && passed < 0) before = {}; // the clock was set back: the measurement begins again
  if (first || passed < 0 || passed >= kLeastTime)
    before.time = rank.time, before.totals = rank.totals;
  before.seen = true;
  view.calls = before.calls, view.bytes = before.bytes, view.bus_bytes = before.bus_bytes;
  return view;
}

CommunicatorView Watch::viewOf(const Dumps& dumps, const std::string& id) {
  const RecordedRanks& ranks = dumps.communicators.at(id);
  CommunicatorView view{
      .id = id, .transports = ranks.begin()->second.transports, .size = ranks.begin()->second.size};
  for (const auto& [number, rank] : ranks) view.ranks.push_back(viewOf(rank));
  for (int rank = 0; rank < view.size; ++rank)
    if (!ranks.contains(rank)) view.unseen.push_back(rank);
  view.findings =
      judge(dumps, id,
            {.patience = static_cast<std::int64_t>(config_.patience * 1e9), .all_present = false});
  return view;
}

void Watch::keepLasting(View& view) {
  std::map<Trouble, int> now;
  for (JobView& job : view.jobs)
    for (CommunicatorView& communicator : job.communicators)
      std::erase_if(communicator.findings, [&](const Finding& finding) {
        if (finding.kind != "straggler" && finding.kind != "slow_link") return false;
        // If a link is slow in both directions, either rank may be the sender on the slower one.
        const auto [low, high] = std::minmax(finding.culprit, finding.peer);
        const Trouble key{job.dumps->job, communicator.id, finding.kind, low, high};
        return (now[key] = slow_[key] + 1) < kLooksOfSlow;
      });
  slow_ = std::move(now);
}

bool Watch::suspects() const {
  return std::any_of(slow_.begin(), slow_.end(),
                     [](const auto& one) { return one.second < kLooksOfSlow; });
}

/// The open communicators; if there is none, those that failed.
JobView Watch::viewOf(Dumps dumps) {
  const auto anyRank = [](const RecordedRanks& ranks, const auto& what) {
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](const auto& one) { return what(one.second); });
  };
  const auto open = [](const RecordedRank& rank) { return rank.open && !rank.ended; };
  const auto broken = [](const RecordedRank& rank) { return rank.failure || rank.open; };
  JobView view{.dumps = std::make_shared<const Dumps>(std::move(dumps)), .ended = true};
  bool any_open = false;
  for (const auto& [id, ranks] : view.dumps->communicators) {
    any_open = any_open || anyRank(ranks, open);
    if (anyRank(ranks, [](const RecordedRank& rank) { return !rank.ended; })) view.ended = false;
  }
  for (const auto& [id, ranks] : view.dumps->communicators)
    if (any_open ? anyRank(ranks, open) : anyRank(ranks, broken))
      view.communicators.push_back(viewOf(*view.dumps, id));
  if (view.ended)
    std::erase_if(view.communicators, [](const CommunicatorView& communicator) {
      return communicator.findings.empty();
    });
  return view;
}

View Watch::lookOnce() {
  View view;
  for (auto& [key, before] : before_) before.seen = false;
  const std::vector<ProcessDump> dumps = read(view);
  view.time = wallClock();
  for (const std::string& job : jobsOf(dumps))
    if (JobView one = viewOf(dumpsOf(dumps, job)); !one.communicators.empty()) {
      for (const std::string& warning : one.dumps->warnings)
        if (std::find(view.troubles.begin(), view.troubles.end(), warning) == view.troubles.end())
          view.troubles.push_back(warning);
      view.jobs.push_back(std::move(one));
    }
  std::erase_if(before_, [](const auto& one) { return !one.second.seen; });
  return view;
}

void Watch::awaitCommands() {
  for (const auto& stream : streams_)
    while (stream->awaitsFirst()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

View Watch::look() {
  View view = lookOnce();
  std::map<Key, bool> dead;
  bool fresh = false;
  for (const JobView& job : view.jobs)
    for (const CommunicatorView& communicator : job.communicators)
      for (const Finding& finding : communicator.findings) {
        if (finding.kind != "died") continue;
        const Key key{job.dumps->job, communicator.id, finding.culprit};
        dead[key] = true;
        fresh = fresh || !dead_.contains(key);
      }
  // When a job ends, its processes do not end at the same instant.
  if (fresh) {
    std::this_thread::sleep_for(kSecondLook);
    view = lookOnce();
  }
  dead_ = std::move(dead);
  keepLasting(view);
  return view;
}

} // namespace rondo::tools
