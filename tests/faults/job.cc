// Starts the ranks in their own process group, and reads their pipe line by line.
#include "job.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <sstream>

#include "support/free_port.h"
#include "support/paths.h"

namespace rondo::test {

long long now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

std::string Job::underLauncher(int ranks, const std::string& environment,
                               const std::string& program) {
  return "exec " + kLimited + "env " + environment + " " RONDO_COMMAND " run -p " +
         std::to_string(ranks) + " -- " RONDO_TEST_PROGRAMS "/program_" + program + " 2>/dev/null";
}

std::string Job::withoutLauncher(int ranks, const std::string& environment,
                                 const std::string& program, const std::string& streams) {
  const std::string port = std::to_string(freePort());
  std::string command;
  for (int rank = 0; rank < ranks; ++rank)
    command += kLimited + "env " + environment + " RONDO_RANK=" + std::to_string(rank) +
               " RONDO_SIZE=" + std::to_string(ranks) + " RONDO_COMM_ID=127.0.0.1:" + port +
               " " RONDO_TEST_PROGRAMS "/program_" + program + " " + streams + " & ";
  return command + "wait";
}

Job::Job(const std::string& command, int ranks) : ranks_(ranks) {
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

Job::~Job() {
  for (const auto& [rank, pid] : pids) ::kill(pid, SIGKILL);
  ::kill(-launcher_, SIGKILL);
  std::fclose(output_);
  ::waitpid(launcher_, nullptr, 0);
}

bool Job::ready() {
  return until([&] { return pids.size() >= static_cast<std::size_t>(ranks_); });
}

bool Job::ended(std::size_t ranks) {
  return until([&] { return endings.size() >= ranks; }) && endings.size() == ranks;
}

bool Job::until(const std::function<bool()>& holds) {
  while (!holds())
    if (!readLine()) return false;
  return true;
}

bool Job::recovered(unsigned long ranks) {
  const auto all = [&] {
    std::size_t have = 0;
    for (const auto& [rank, recovery] : recoveries) {
      if (!recovery.refused.empty()) return true;
      have += recovery.ranks == ranks && (ranks >> rank & 1) != 0 ? 1 : 0;
    }
    return have == static_cast<std::size_t>(std::popcount(ranks));
  };
  if (!until(all)) return false;
  for (const auto& [rank, recovery] : recoveries)
    if (!recovery.refused.empty()) return false;
  return true;
}

std::string Job::refusals() const {
  std::string text;
  for (const auto& [rank, recovery] : recoveries)
    if (!recovery.refused.empty())
      text += "rank " + std::to_string(rank) + ":" + recovery.refused + "\n";
  return text;
}

void Job::end() {
  while (readLine()) {
  }
}

bool Job::readLine() {
  char line[4096];
  if (!std::fgets(line, sizeof line, output_)) return false;
  std::istringstream words(line);
  std::string what;
  int rank = -1;
  words >> what >> rank;
  if (what == "ready") words >> pids[rank];
  if (what == "recovered") {
    Recovery& recovery = recoveries[rank];
    words >> recovery.size >> recovery.ranks >> recovery.known >> recovery.shrunk >>
        recovery.reduced;
  }
  if (what == "refused") std::getline(words, recoveries[rank].refused);
  if (what == "step") {
    auto& [number, ranks] = trainings[rank].steps.emplace_back();
    words >> number >> ranks;
  }
  if (what == "trained") {
    Training& training = trainings[rank];
    words >> training.accuracy >> training.made >> training.ranks;
  }
  if (what == "heard") std::getline(words, heard[rank]);
  if (what == "logged") std::getline(words, logged.emplace_back());
  if (what == "error") {
    Ending& ending = endings[rank];
    words >> ending.at >> ending.called >> ending.code >> ending.culprit;
    std::getline(words, ending.text);
  }
  return true;
}

} // namespace rondo::test
