// A host of the control plane that leaves while other ranks are stopped: what these tests share.
#pragma once

#include <signal.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "member_job.h"
#include "support/temporary_folder.h"

namespace rondo::test {

using namespace std::chrono_literals;

inline constexpr int kSize = 5;

/// The lowest rank outside the host's process: the first that is offered the control plane.
inline int successorOf(Host host) { return host == Host::launcher ? 0 : 1; }
/// The ranks that neither leave nor are stopped.
inline std::vector<int> othersOf(Host host) {
  std::vector<int> ranks;
  for (int rank = successorOf(host) + 1; rank < kSize; ++rank) ranks.push_back(rank);
  return ranks;
}
inline std::string text(Host host) {
  return host == Host::launcher ? "launcher hosts" : "rank 0 hosts";
}

/// The log of all ranks of a job.
class Log {
 public:
  /// The environment of a job with this log.
  std::map<std::string, std::string> in(std::map<std::string, std::string> environment) const {
    environment["RONDO_DEBUG"] = "info";
    environment["RONDO_DEBUG_FILE"] = path_;
    return environment;
  }
  /// Waits until this rank was offered the control plane so often.
  bool offered(int rank, int times = 1) const {
    return says("rank " + std::to_string(rank) + " is offered the control plane", times);
  }
  std::string text() const {
    std::ostringstream stream;
    stream << std::ifstream(path_).rdbuf();
    return stream.str();
  }
  /// Waits until the hub has read the last message of a rank.
  bool left(int rank) const { return says("rank " + std::to_string(rank) + " has left the job"); }
  /// Waits until these words were said so often.
  bool says(const std::string& words, int times = 1) const {
    for (const base::Deadline limit(60s); !limit.passed(); std::this_thread::sleep_for(1ms)) {
      const std::string text = this->text();
      int count = 0;
      for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1))
        ++count;
      if (count >= times) return true;
    }
    return false;
  }

 private:
  const TemporaryFolder folder_;
  const std::string path_ = folder_.file("log");
};

/// Stops the ranks, and lets the host leave. When this returns, its process has ended.
inline void leaveWhileStopped(Job& job, Host host, const std::vector<int>& stopped) {
  for (const int rank : stopped) job.at(rank).signal(SIGSTOP);
  std::this_thread::sleep_for(200ms); // SIGSTOP does not stop all threads at once
  if (host == Host::launcher) return job.endLaunch();
  job.at(0).hangUp();
  CHECK(job.at(0).end().value_or(-1) == 0);
}

/// Starts three ranks. Rank 2 has left its communicator, so it gets no offer. When this returns,
/// rank 1 is stopped, and the leaving host has offered it the control plane.
inline void offerToStopped(Job& job, const Log& log) {
  for (const int rank : {0, 1}) job.start(rank);
  job.start(2, {}, "leave");
  for (const int rank : {0, 1, 2}) REQUIRE(job.at(rank).line() == "ready");
  job.at(2).tell("go");
  CHECK(job.at(2).line() == "left");
  job.at(1).signal(SIGSTOP);
  std::this_thread::sleep_for(200ms);
  job.at(0).tell("go");
  REQUIRE(log.offered(1));
}

/// Starts three ranks. When this returns, ranks 1 and 2 are stopped, and the leaving host has
/// offered both the control plane.
inline void offerToBothStopped(Job& job, const Log& log) {
  job.startAll();
  for (const int rank : {1, 2}) job.at(rank).signal(SIGSTOP);
  std::this_thread::sleep_for(200ms);
  job.at(0).tell("go");
  for (const int rank : {1, 2}) REQUIRE(log.offered(rank));
}

/// Kills rank 2, and requires that rank 1 names it: the ranks have a control plane.
inline void namesDeathOf2(Job& job, const Log& log) {
  job.at(2).signal(SIGKILL);
  const std::string line = job.at(1).line(20s);
  INFO("rank 1 says: " << line << "; the log:\n" << log.text());
  CHECK(startsWith(line, "failed peer_dead 2 rank 2"));
}

/// Requires that rank 1 takes over, and names no rank until it leaves.
inline void namesNobody(Job& job, const Log& log) {
  REQUIRE(log.says("rank 1 hosts the control plane from now on"));
  CHECK(job.at(1).line(4s) == "");
  job.at(1).tell("go");
  CHECK(job.at(1).line() == "done");
}

} // namespace rondo::test
