// Starts the ranks of one job, passes signals and output on, and ends them.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "rondo/rendezvous.h"
#include "tools/descriptor.h"
#include "tools/spawn.h"
#include "tools/spawn_signals.h"
#include "tools/spawn_terminal.h"
#include "topology/bind.h"

namespace rondo::tools {

/// The half of spawnRanks() that runs in a process of its own, a child subreaper.
class Job {
 public:
  struct Settings {
    const SpawnOptions& options;
    const SignalWatch& signals;
    const std::vector<topology::Processors>& places; ///< of each rank; empty: none is bound
    const Descriptor& launcher;                      ///< a pipe that ends when the launcher does
    pid_t terminal_group; ///< the launcher's, which may have the terminal
  };

  explicit Job(const Settings& settings);
  /// Kills the ranks if run() has thrown.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Returns the status of spawnRanks() when the ranks, and all processes that they started in this
  /// session, have ended.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  /// One of a rank's two outputs, when lines are tagged.
  struct Output {
    Descriptor from;
    int to = -1;
    std::string line; ///< not complete yet
  };
  /// How much drain() reads: what one call of read() returns, or all that a pipe can hold.
  enum class Amount { some, all };
  struct Child {
    pid_t pid = -1; ///< and process group
    bool running = false;
    std::array<Output, 2> outputs;
  };
  /// A rank that was killed or has failed, for which it is not decided whether the job goes on.
  struct Loss {
    std::size_t rank;
    int status;
    Clock::time_point decided; ///< at this time, or when all other ranks have ended
  };

  bool start(int rank, bool again = false);
  bool mayGoOn(int status) const;
  bool goesOn(const Loss& loss);
  void decide();
  void failBy(std::size_t rank, int status);
  std::size_t running() const;
  std::vector<std::string> variablesOf(int rank, bool again) const;
  void become(int rank, const std::array<Descriptor, 2>& outputs);
  bool anyRunning() const { return running() > 0; }
  static void signalRank(const Child& child, int signal);
  void signalAll(int signal);

  void step(std::chrono::milliseconds most);
  std::chrono::milliseconds waitAtMost(std::chrono::milliseconds most) const;
  void takeNews();
  void readSignals();
  void endBySignal(int signal);
  void stopBy(int signal);
  void loseLauncher();
  void reap();
  void noteStop(const Child& child, int signal);
  void noteEnd(std::size_t rank, int status);
  void startGrace();
  void escalate();
  void endRemains();

  bool write(int fd, std::string_view text);
  void noteLoss(int fd);
  void drain(const Child& child, Output& output, Amount amount = Amount::some);

  const Settings settings_;
  const SpawnOptions& options_;
  Launch launch_;
  Descriptor
      rendezvous_file_; ///< a file in memory, where the ranks leave an id for those that join
  int restarts_left_ = 0;
  std::vector<Loss> losses_;
  int succeeded_ = 0; ///< ranks that ended with 0
  Terminal terminal_;
  std::vector<Child> children_;
  std::optional<Clock::time_point> next_; ///< end of the present grace period
  int status_ = 0;
  bool lost_ = false; ///< a rank's output could not be written
  int cause_ = -1;    ///< the rank that status_ belongs to
  bool cause_killed_ = false;
  bool stopping_ = false, reported_ = false;
  bool launcher_lost_ = false;
  bool hurried_ = false; ///< kill remaining processes at once
  bool closing_ = false; ///< stop reading outputs, even if a process holds them open
  std::optional<Clock::time_point> interrupted_; ///< by the first signal
};

} // namespace rondo::tools
