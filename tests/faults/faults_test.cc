// The fault matrix from outside: real processes, real signals, the bounds that users are promised.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/test.h"

namespace {

constexpr int kRanks = 4;

// Instrumented code is several times slower; the bounds are promised for what users run.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlower = 4;
#else
constexpr double kSlower = 1;
#endif

long long now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

struct Ending {
  long long at = 0;     ///< when the rank knew
  long long called = 0; ///< when it made the call that failed
  std::string code;
  int culprit = -2;
  std::string text;
};

/// `rondo run -p 4` of the endless program, for a minute at most.
class Job {
 public:
  Job(const std::string& transport, const std::string& algorithm, const std::string& arguments) {
    const std::string command =
        "exec timeout -s KILL 60 env RONDO_TRANSPORT=" + transport + " RONDO_ALGO='" + algorithm +
        "' " RONDO_COMMAND " run -p " + std::to_string(kRanks) +
        " -- " RONDO_TEST_PROGRAMS "/program_endless_allreduce " + arguments + " 2>/dev/null";
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    launcher_ = ::fork();
    if (launcher_ == 0) {
      ::setpgid(0, 0);
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    output_ = ::fdopen(ends[0], "r");
  }
  ~Job() {
    for (const auto& [rank, pid] : pids) ::kill(pid, SIGKILL);
    ::kill(-launcher_, SIGKILL);
    std::fclose(output_);
    ::waitpid(launcher_, nullptr, 0);
  }

  /// Reads until every rank is ready.
  bool ready() {
    while (pids.size() < kRanks && readLine()) {
    }
    return pids.size() == kRanks;
  }
  /// Reads until so many ranks have ended with an error.
  bool ended(std::size_t ranks) {
    while (endings.size() < ranks && readLine()) {
    }
    return endings.size() == ranks;
  }

  std::map<int, pid_t> pids;
  std::map<int, Ending> endings;

 private:
  bool readLine() {
    char line[4096];
    if (!std::fgets(line, sizeof line, output_)) return false;
    std::istringstream words(line);
    std::string what;
    int rank = -1;
    words >> what >> rank;
    if (what == "ready") words >> pids[rank];
    if (what == "error") {
      Ending& ending = endings[rank];
      words >> ending.at >> ending.called >> ending.code >> ending.culprit;
      std::getline(words, ending.text);
    }
    return true;
  }

  pid_t launcher_ = -1;
  FILE* output_ = nullptr;
};

double seconds(long long nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

/// Sends the signal to one rank and demands that all others name it within the bound.
void strike(const std::string& transport, const std::string& algorithm, int victim, int signal,
            const std::string& code, double bound, const std::string& arguments = "3000") {
  Job job(transport, algorithm, arguments);
  INFO(transport << ", " << algorithm << ", rank " << victim);
  REQUIRE(job.ready());
  const long long struck = now();
  REQUIRE(::kill(job.pids[victim], signal) == 0);
  REQUIRE(job.ended(kRanks - 1));
  for (const auto& [rank, ending] : job.endings) {
    INFO("rank " << rank << " after " << seconds(ending.at - struck) << " s:" << ending.text);
    CHECK(rank != victim);
    CHECK(ending.code == code);
    CHECK(ending.culprit == victim);
    CHECK(ending.text.find("rank " + std::to_string(victim)) != std::string::npos);
    CHECK(seconds(ending.at - struck) < bound * kSlower);
  }
}

} // namespace

TEST_CASE("kill -9 of any rank: within a second every survivor names it") {
  for (const char* transport : {"shm", "tcp"})
    for (const char* algorithm : {"ring", "tree", "direct"})
      for (int victim = 0; victim < kRanks; ++victim)
        strike(transport, algorithm, victim, SIGKILL, "peer_dead", 1.0);
}

TEST_CASE("kill -9 of a rank whose child lives on: within a second every survivor names it") {
  for (const char* child : {"fork", "clone"})
    for (const char* transport : {"shm", "tcp"})
      for (int victim : {0, 3})
        strike(transport, "", victim, SIGKILL, "peer_dead", 1.0, std::string("3000 ") + child);
}

TEST_CASE("SIGSTOP of a rank: within four seconds every survivor names it") {
  for (const char* transport : {"shm", "tcp"})
    for (int victim : {0, 3}) strike(transport, "", victim, SIGSTOP, "unresponsive", 4.0);
}

TEST_CASE("another count on one rank: within a second of the call all know, with both calls") {
  for (const char* transport : {"shm", "tcp"})
    for (const char* counts : {"3000 2 3001", "10 2 100000", "100000 0 8"}) {
      Job job(transport, "", counts);
      INFO(transport << ", " << counts);
      REQUIRE(job.ended(kRanks));
      for (const auto& [rank, ending] : job.endings) {
        INFO("rank " << rank << ":" << ending.text);
        CHECK(ending.code == "mismatch");
        CHECK(ending.text.find("AllReduce #") != std::string::npos);
        CHECK(seconds(ending.at - ending.called) < kSlower);
      }
    }
}
