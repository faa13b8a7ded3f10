// A job whose ranks are processes of `program_bootstrap_member`.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "process.h"
#include "rondo/rendezvous.h"
#include "support/free_port.h"
#include "support/grid.h"
#include "support/paths.h"
#include "support/test.h"

namespace rondo::test {

inline const std::string kProgram = RONDO_TEST_PROGRAMS "/program_bootstrap_member";

/// The process that hosts the hub: this one, as under `rondo run`, or rank 0.
enum class Host { launcher, rank_zero };

/// Runs `size` ranks as processes, and kills them when the test ends.
class Job {
 public:
  Job(Host host, int size, const std::string& scenario,
      std::map<std::string, std::string> environment)
      : size_(size), scenario_(scenario), environment_(std::move(environment)) {
    if (host == Host::launcher) launch_ = std::make_unique<Launch>(size);
    else address_ = "127.0.0.1:" + std::to_string(freePort());
  }

  /// `scenario`: empty: that of the job.
  void start(int rank, const std::map<std::string, std::string>& own = {},
             const std::string& scenario = "") {
    Process::Settings settings{
        kProgram, {scenario.empty() ? scenario_ : scenario}, environment_, -1};
    for (const auto& [name, value] : own) settings.environment[name] = value;
    if (launch_) {
      settings.inherited = launch_->descriptor();
      for (const auto& item : launch_->environment(rank)) {
        const auto equals = item.find('=');
        settings.environment[item.substr(0, equals)] = item.substr(equals + 1);
      }
    } else {
      settings.environment["RONDO_RANK"] = std::to_string(rank);
      settings.environment["RONDO_SIZE"] = std::to_string(size_);
      settings.environment["RONDO_COMM_ID"] = address_;
    }
    ranks_.emplace(rank, Process(settings));
  }
  void startAll() {
    for (int rank = 0; rank < size_; ++rank) start(rank);
    for (int rank = 0; rank < size_; ++rank) REQUIRE(at(rank).line() == "ready");
  }
  Process& at(int rank) { return ranks_.at(rank); }
  void endLaunch() { launch_.reset(); }

 private:
  const int size_;
  const std::string scenario_;
  const std::map<std::string, std::string> environment_;
  std::unique_ptr<Launch> launch_;
  std::string address_;
  std::map<int, Process> ranks_;
};

// With this heartbeat a test can notice only the end of a connection.
inline const std::map<std::string, std::string> kRare = {{"RONDO_HEARTBEAT", "60"}};
inline const std::map<std::string, std::string> kOften = {{"RONDO_HEARTBEAT", "0.3"}};
inline const std::map<std::string, std::string> kUsual = {{"RONDO_HEARTBEAT", "1"}};

/// The unique id that the scenario "host" prints.
inline UniqueId idOf(const std::string& digits) {
  UniqueId id;
  REQUIRE(digits.size() == 2 * id.bytes.size());
  for (std::size_t i = 0; i < id.bytes.size(); ++i)
    id.bytes[i] = static_cast<std::byte>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  return id;
}

inline bool startsWith(const std::string& text, const std::string& start) {
  return text.starts_with(start);
}

/// Requires that the ranks make a communicator of all of them.
inline void agree(Job& job, const std::vector<int>& ranks) {
  for (const int rank : ranks) job.at(rank).tell("go");
  const std::string first = job.at(ranks[0]).line();
  INFO("rank " << ranks[0] << " says: " << first);
  CHECK(startsWith(first, "agreed"));
  for (const int rank : ranks)
    if (rank != ranks[0]) CHECK(job.at(rank).line() == first);
}

inline constexpr Host kHosts[] = {Host::launcher, Host::rank_zero};

} // namespace rondo::test
