// Runs a line of shell code with a deadline, and keeps its output.
#pragma once

#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/paths.h"
#include "support/temporary_folder.h"

namespace rondo::test {

inline std::string readFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<std::string> linesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Number of occurrences of the word in the text.
inline int countOf(const std::string& text, const std::string& word) {
  int count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

struct Outcome {
  int status = 0; ///< 124: it was still running at the deadline
  std::string out, err;
  double seconds = 0;
};

/// Shell code: the ranks of the launcher $JOB, which are children of its supervisor.
inline const std::string kRanksOfJob = "$(pgrep -P $(pgrep -P $JOB))";

/// Shell code: ends this rank of the launcher $JOB. (Ranks are found by the order of process ids,
/// so when these wrap around it may end another rank.)
inline std::string killRank(int rank) {
  return "for CHILD in " + kRanksOfJob + "; do\n  grep -qzx RONDO_RANK=" + std::to_string(rank) +
         " /proc/$CHILD/environ && kill -9 $CHILD\ndone\n";
}

/// Shell code: a program that writes its process id to the file $1 before it sleeps.
inline const std::string kSleeper =
    "cat >sleeper <<'END'\n#!/bin/sh\necho $$ >$1.new\nmv $1.new $1\nexec sleep 1000\nEND\n"
    "chmod +x sleeper\n";

/// Shell code: prints "gone" when the processes of these files have ended or are zombies. After 15
/// s it prints "alive" with those that have not ended, and kills them.
inline std::string untilGone(const std::string& files) {
  return "for PID in $(cat " + files +
         "); do\n  TRIES=0\n  while grep -qs '^State:.[^ZX]' /proc/$PID/status; do\n"
         "    TRIES=$((TRIES + 1))\n"
         "    if [ $TRIES = 300 ]; then echo alive $PID; kill -9 $PID; fi\n"
         "    sleep 0.05\n  done\ndone\necho gone\n";
}

/// Runs the line; in it, $RONDO is the command under test.
inline Outcome shell(const std::string& line, int deadline_seconds = 120) {
  TemporaryFolder folder;
  std::ofstream(folder.file("script")) << "RONDO=" << RONDO_COMMAND << "\n" << line << "\n";
  const std::string whole = "timeout -k 5 " + std::to_string(deadline_seconds) + " sh " +
                            folder.file("script") + " >" + folder.file("out") + " 2>" +
                            folder.file("err") + " </dev/null";
  const auto start = std::chrono::steady_clock::now();
  const int status = std::system(whole.c_str());
  Outcome outcome;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = readFile(folder.file("out"));
  outcome.err = readFile(folder.file("err"));
  return outcome;
}

} // namespace rondo::test
