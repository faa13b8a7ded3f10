// `rondo doctor` as the ranks of a job: gathers what they find, and prints it once.
#include "tools/doctor_job.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "rondo/rondo.h"
#include "tools/bench/json.h"
#include "tools/command.h"
#include "tools/version.h"

namespace rondo::tools {

namespace {

using nlohmann::json;

std::int64_t nanoseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// What all ranks pass, in the order of the ranks; texts are at most 16 KiB. Collective.
std::vector<json> exchanged(Communicator& comm, const json& own) {
  const std::string text = own.dump(-1, ' ', false, json::error_handler_t::replace);
  std::vector<json> all;
  for (const auto& blob : comm.exchange(std::as_bytes(std::span(text))))
    all.push_back(json::parse(reinterpret_cast<const char*>(blob.data()),
                              reinterpret_cast<const char*>(blob.data()) + blob.size()));
  return all;
}

/// Computes for so long, and returns the part of a processor's time that this thread got.
double computed(std::chrono::milliseconds time) {
  const std::int64_t end = std::chrono::nanoseconds(time).count();
  const std::int64_t begin = nanoseconds(CLOCK_MONOTONIC);
  const std::int64_t used = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
  std::int64_t passed = 0;
  while (passed < end) passed = nanoseconds(CLOCK_MONOTONIC) - begin;
  return static_cast<double>(nanoseconds(CLOCK_THREAD_CPUTIME_ID) - used) /
         static_cast<double>(passed);
}

/// Sets every rank's share of processor time. Ranks that seem starved must be so each of three
/// times: programs that run for a moment also take time. Collective.
void measureShares(Communicator& comm, std::vector<RankFacts>& ranks) {
  std::size_t most = 0; // ranks on one processor
  for (int rank = 0; rank < comm.size(); ++rank) {
    const Place& place = comm.placeOf(rank);
    std::size_t here = 0;
    for (int other = 0; other < comm.size(); ++other)
      here += comm.placeOf(other).machine == place.machine;
    most = std::max(most, (here - 1) / std::max<std::size_t>(place.processors.size(), 1) + 1);
  }
  // The system gives each program some milliseconds at a time.
  const std::chrono::milliseconds time(most > 1 ? std::min<std::size_t>(1500, 60 * most + 300)
                                                : 300);
  for (int look = 0; look < 3; ++look) {
    comm.exchange({});
    const auto all = exchanged(comm, computed(time));
    for (std::size_t r = 0; r < ranks.size(); ++r)
      ranks[r].share =
          look == 0 ? all[r].get<double>() : std::max(ranks[r].share, all[r].get<double>());
    if (starved(ranks).empty()) return;
  }
}

/// How far this rank's wall clock is ahead of rank 0's, by the shortest of some round trips.
void compareClocks(Communicator& comm, RankFacts& own) {
  constexpr int kRounds = 8;
  std::int64_t theirs = 0, shortest = std::numeric_limits<std::int64_t>::max();
  if (comm.rank() == 0) {
    for (int peer = 1; peer < comm.size(); ++peer)
      for (int round = 0; round < kRounds; ++round) {
        comm.recv(&theirs, 1, DataType::int64, peer);
        const std::int64_t now = nanoseconds(CLOCK_REALTIME);
        comm.send(&now, 1, DataType::int64, peer);
      }
    return;
  }
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t before = nanoseconds(CLOCK_REALTIME);
    comm.send(&before, 1, DataType::int64, 0);
    comm.recv(&theirs, 1, DataType::int64, 0);
    const std::int64_t trip = nanoseconds(CLOCK_REALTIME) - before;
    if (trip < 0 || trip >= shortest) continue;
    shortest = trip;
    own.clock = before + trip / 2 - theirs;
    own.clock_error = trip / 2;
  }
}

void gatherClocks(Communicator& comm, std::vector<RankFacts>& ranks) {
  RankFacts own;
  compareClocks(comm, own);
  const auto all = exchanged(comm, json{own.clock, own.clock_error});
  for (std::size_t r = 0; r < ranks.size(); ++r)
    ranks[r].clock = all[r].at(0), ranks[r].clock_error = all[r].at(1);
}

/// All but what is measured. Sends no message, so it also works on ranks that can send none.
std::vector<RankFacts> gatherFacts(Communicator& comm, std::vector<DoctorFinding> findings) {
  std::stable_partition(findings.begin(), findings.end(),
                        [](const DoctorFinding& one) { return one.fatal; });
  json page{{"version", kVersion},
            {"interfaces", outwardInterfaces()},
            {"findings", json::array()},
            {"libraries", ""}};
  std::string libraries;
  for (const std::string& line : libraryLines())
    libraries += (libraries.empty() ? "" : ", ") + line;
  page["libraries"] = libraries;
  constexpr std::size_t kMostFindings = 12, kLongest = 800; // so that they fit an exchange
  for (std::size_t i = 0; i < std::min(findings.size(), kMostFindings); ++i) {
    const DoctorFinding& one = findings[i];
    page["findings"].push_back(
        {one.fatal, one.name, one.text.substr(0, kLongest), one.remedy.substr(0, kLongest / 2)});
  }
  std::vector<RankFacts> all;
  for (const json& theirs : exchanged(comm, page)) {
    RankFacts& facts = all.emplace_back();
    const Place& place = comm.placeOf(static_cast<int>(all.size()) - 1);
    facts.host = place.host;
    facts.node = place.node;
    facts.version = theirs.at("version");
    facts.libraries = theirs.at("libraries");
    facts.interfaces = theirs.at("interfaces").get<std::vector<std::string>>();
    for (const json& one : theirs.at("findings"))
      facts.findings.push_back({one.at(0), one.at(1), one.at(2), one.at(3)});
  }
  return all;
}

void printFindings(const std::vector<DoctorFinding>& found) {
  for (const DoctorFinding& one : found)
    std::printf("%s: %s: %s. Remedy: %s\n", one.fatal ? "error" : "warning", one.name.c_str(),
                one.text.c_str(), one.remedy.c_str());
}

void printText(const JobFacts& job, const std::vector<DoctorFinding>& found, bool runs) {
  printFindings(found);
  std::size_t pairs = 0;
  for (const LinkFacts& links : job.links) pairs += links.pairs.size();
  std::printf("%zu ranks, %zu links: a job %s\n", job.ranks.size(), pairs,
              runs ? "runs on them" : "does not run on them");
}

void printJson(const JobFacts& job, const std::vector<DoctorFinding>& found, bool runs) {
  using nlohmann::ordered_json;
  ordered_json page{{"runs", runs}};
  page["findings"] = page["ranks"] = page["links"] = ordered_json::array();
  for (const DoctorFinding& one : found)
    page["findings"].push_back({{"name", one.name},
                                {"level", one.fatal ? "error" : "warning"},
                                {"text", one.text},
                                {"remedy", one.remedy}});
  for (const RankFacts& rank : job.ranks)
    page["ranks"].push_back({{"host", rank.host},
                             {"version", rank.version},
                             {"libraries", rank.libraries},
                             {"interfaces", rank.interfaces},
                             {"processor_share", rank.share},
                             {"clock_ahead_ns", rank.clock},
                             {"clock_error_ns", rank.clock_error}});
  for (const LinkFacts& links : job.links)
    for (const PairFacts& pair : links.pairs)
      page["links"].push_back({{"way", links.way},
                               {"ranks", {pair.a, pair.b}},
                               {"latency_us", pair.latency * 1e6},
                               {"bytes_per_second", pair.bandwidth}});
  std::printf("%s\n", page.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

std::string hostName() {
  std::array<char, 64> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "host";
}

bool anyFatal(const std::vector<DoctorFinding>& found) {
  return std::any_of(found.begin(), found.end(),
                     [](const DoctorFinding& one) { return one.fatal; });
}

/// What this rank prints about the failure; empty: another rank prints it. `joined`: all ranks had
/// met and have this error. Otherwise this rank's own fatal findings may be the cause.
std::vector<DoctorFinding> failureOf(const Error& error, const LaunchInfo& launch, bool joined,
                                     const std::vector<DoctorFinding>& own) {
  const std::string here = "rank " + std::to_string(launch.rank) + " on " + hostName() + ": ";
  if (!joined && anyFatal(own)) {
    std::vector<DoctorFinding> found;
    for (const DoctorFinding& one : own)
      if (one.fatal) found.push_back({true, one.name, here + one.text, one.remedy});
    return found;
  }
  const bool elsewhere = error.culprit() >= 0 && error.culprit() != launch.rank;
  if (launch.rank != 0 && (joined || elsewhere)) return {};
  std::string text = error.what();
  if (const std::string code = std::string(name(error.code())) + ": "; text.starts_with(code))
    text = text.substr(code.size());
  const char* const interface = std::getenv("RONDO_SOCKET_IFNAME");
  const std::string by =
      interface && *interface ? std::string(" (RONDO_SOCKET_IFNAME=") + interface + ")" : "";
  const char* const remedy =
      text.find("cannot be resolved") != std::string::npos
          ? "use the address of rank 0's host, or add its name to DNS or /etc/hosts"
          : "start all ranks, allow connections between the hosts on all ports (firewall), compare "
            "the rendezvous' address on all ranks, or name an interface that all reach in "
            "RONDO_SOCKET_IFNAME";
  return {{true, "join", here + text + by, remedy}};
}

/// Whether rank 0 can write its file, before anything is measured; if not, it prints why.
/// Collective.
bool canWrite(Communicator& comm, const std::string& file) {
  bool can = true;
  if (comm.rank() == 0 && !file.empty()) {
    try {
      requireWritable("--svg", file);
    } catch (const Error& error) {
      reportError(error);
      can = false;
    }
  }
  return exchanged(comm, can)[0].get<bool>();
}

} // namespace

int examineJob(const DoctorConfig& config, const std::vector<DoctorFinding>& own) {
  const LaunchInfo launch = Rendezvous::detectLauncher();
  Options options;
  try {
    options = Options::fromEnvironment();
  } catch (const Error&) { // a finding of its own
  }
  // Rank 0 waits longer, so that a rank that cannot reach it says so first.
  options.init_timeout = std::chrono::seconds(launch.rank == 0 ? 25 : 15);
  options.timeout = std::chrono::seconds(30);
  options.device = -1;
  options.trace_folder.clear();
  options.dump_folder.clear();
  // With what is wrong left out, the rank may join and tell it.
  if (anyFatal(own)) options.socket_interface.clear();
  bool joined = false;
  int status = kSuccess;
  std::string drawing;
  try {
    auto comm = Communicator::create(Rendezvous::environment(), options);
    joined = true;
    if (!canWrite(comm, config.svg)) return kError;
    JobFacts job;
    job.ranks = gatherFacts(comm, own);
    const bool fit = std::none_of(job.ranks.begin(), job.ranks.end(),
                                  [](const RankFacts& rank) { return anyFatal(rank.findings); });
    if (fit) { // the same on all ranks
      gatherClocks(comm, job.ranks);
      measureShares(comm, job.ranks);
      measureLinks(comm, job);
    }
    const auto found = judgeJob(job);
    const bool runs = !anyFatal(found);
    if (comm.rank() == 0) {
      config.json ? printJson(job, found, runs) : printText(job, found, runs);
      if (!config.svg.empty()) drawing = linksSvg(job);
    }
    status = runs ? kSuccess : kFailure;
  } catch (const Error& error) {
    const auto found = failureOf(error, launch, joined, own);
    if (!config.json) printFindings(found);
    else if (!found.empty()) printJson({}, found, false);
    return kFailure;
  }
  if (!drawing.empty()) writeFile(config.svg, drawing);
  return status;
}

} // namespace rondo::tools
