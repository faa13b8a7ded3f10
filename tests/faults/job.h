// Ranks as processes, and their lines on standard output.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace rondo::test {

// Instrumented code is several times slower; the time limits are promised for normal builds.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr double kSlower = 4;
#else
inline constexpr double kSlower = 1;
#endif

/// The monotonic clock in nanoseconds, which the programs print too.
long long now();
inline double seconds(long long nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

struct Ending {
  long long at = 0;     ///< when the rank got the error
  long long called = 0; ///< when it made the failed call
  std::string code;
  int culprit = -2;
  std::string text;
};

/// What a rank says after a shrink() and the first correct AllReduce.
struct Recovery {
  int size = 0;                                 ///< of the new communicator
  unsigned long ranks = 0;                      ///< a bit for each rank of the job that took part
  long long known = 0, shrunk = 0, reduced = 0; ///< times
  std::string refused;                          ///< the error of shrink() instead
};

/// What a rank of a training run says.
struct Training {
  std::vector<std::pair<long, int>> steps; ///< number of each step, and the ranks that made it
  double accuracy = -1;                    ///< at the end; -1: it has not ended
  long made = 0;                           ///< steps of the whole run
  int ranks = 0;                           ///< at the end
};

/// A command that ends what follows after a time in which any job has ended, also if other tests
/// load the machine.
inline const std::string kLimited = "timeout -s KILL 240 ";

/// Ranks that run a test program. A rank prints "ready RANK PID", and at the
/// end "error RANK NANOSECONDS CALLED CODE CULPRIT TEXT", "heard RANK TEXT", "logged RANK TEXT",
/// "recovered RANK SIZE RANKS KNOWN SHRUNK REDUCED" or "refused RANK TEXT"; ranks that train "step
/// RANK NUMBER RANKS" and "trained RANK ACCURACY STEPS RANKS".
class Job {
 public:
  /// `command`: a shell command that starts the ranks. `ranks`: how many of them become ready.
  Job(const std::string& command, int ranks);
  /// Starts them with `rondo run`. `environment`: "NAME=VALUE ..."; `program`: name and arguments.
  Job(int ranks, const std::string& environment, const std::string& program)
      : Job(underLauncher(ranks, environment, program), ranks) {}
  static std::string underLauncher(int ranks, const std::string& environment,
                                   const std::string& program);
  /// Starts them from the shell, so that rank 0 hosts the control plane. `streams`: redirections.
  static std::string withoutLauncher(int ranks, const std::string& environment,
                                     const std::string& program,
                                     const std::string& streams = "2>/dev/null");
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Reads until every rank is ready.
  bool ready();
  /// Reads until this many ranks have ended with an error.
  bool ended(std::size_t ranks);
  /// Reads until the condition holds.
  bool until(const std::function<bool()>& holds);
  /// Reads until these ranks have all recovered to a communicator of just them, or one was refused.
  bool recovered(unsigned long ranks);
  /// A line for each rank that was refused.
  std::string refusals() const;
  /// Reads the rest, until all ranks have ended.
  void end();

  std::map<int, pid_t> pids;
  std::map<int, Ending> endings;
  std::map<int, std::string> heard;
  std::map<int, Recovery> recoveries; ///< the last of each rank
  std::map<int, Training> trainings;
  std::vector<std::string> logged; ///< of all ranks

 private:
  bool readLine();

  const int ranks_;
  pid_t launcher_ = -1;
  FILE* output_ = nullptr;
};

} // namespace rondo::test
