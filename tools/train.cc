// Runs a training job: finds or starts the ranks, stops them on signals, writes the report.
#include "tools/train.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <optional>
#include <span>
#include <string_view>
#include <thread>

#include "rondo/communicator.h"
#include "tools/bench/json.h"
#include "tools/command.h"
#include "tools/spawn.h"
#include "tools/threads.h"
#include "tools/train_display.h"
#include "tools/train_results.h"
#include "tools/train_sweep.h"

namespace rondo::tools {

namespace {

using SteadyClock = std::chrono::steady_clock; ///< safe in signal handlers

/// Time of the first SIGINT or SIGTERM, in ticks of the clock; 0: none yet.
std::atomic<SteadyClock::rep> stop_asked{0};
static_assert(std::atomic<SteadyClock::rep>::is_always_lock_free, "a signal handler sets it");

/// Asks the run to stop. A second signal, after kOneAsking, ends the process at once.
void onSignal(int signal) {
  const auto now = SteadyClock::now().time_since_epoch();
  SteadyClock::rep first = 0;
  if (stop_asked.compare_exchange_strong(first, now.count())) return;
  if (now - SteadyClock::duration(first) < kOneAsking) return;
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

/// From now on these signals ask the run to end after the current step.
void stopOnSignals() {
  struct sigaction action {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

void printHead(const TrainConfig& config, const Communicator& comm) {
  const TrainOptions& options = config.options;
  std::printf("model %s, %d %s over %s, batch %d, %s, learning rate %g, momentum %g%s\n",
              options.model.c_str(), comm.size(), comm.size() == 1 ? "rank" : "ranks",
              transportsOf(comm).c_str(), options.batch, options.optimizer.name.c_str(),
              options.optimizer.learning_rate, options.optimizer.momentum,
              config.deterministic ? ", deterministic" : "");
  std::fflush(stdout);
}

void printEnd(const TrainConfig& config, const TrainReport& report) {
  const std::string& checkpoint = config.options.files.checkpoint;
  clearProgress();
  if (report.times.step > 0) std::printf("%s\n", timesLine(report.times).c_str());
  if (report.stopped) {
    std::printf("stopped after step %lld%s\n", static_cast<long long>(report.steps),
                checkpoint.empty() ? "" : ("; --resume goes on from " + checkpoint).c_str());
  }
  std::printf("trained in %.1f s, parameter hash %016llx\n", report.seconds,
              static_cast<unsigned long long>(report.parameter_hash));
  if (!report.stopped) std::printf("test accuracy %.4f\n", report.test_accuracy);
  std::fflush(stdout);
}

/// Aborts the communicator, so that the other ranks also end after an error of this rank.
void endAll(Communicator& comm, const std::exception& error) {
  comm.abort("rank " + std::to_string(comm.rank()) + ": " + error.what());
}

TrainReport trainOn(Communicator& comm, const TrainConfig& config,
                    const std::function<void(const TrainProgress&)>& show) {
  stopOnSignals();
  TrainOptions options = config.options;
  options.stop = [given = config.options.stop] { return stopAsked() || (given && given()); };
  try {
    return train(comm, options, show);
  } catch (const Error&) {
    throw; // the library has told the other ranks, if it concerns them
  } catch (const std::exception& error) {
    endAll(comm, error);
    throw;
  }
}

Communicator communicator(const TrainConfig& config, const Rendezvous& meet) {
  Options options = Options::fromEnvironment();
  if (!config.transport.empty()) options.transports = config.transport;
  if (config.deterministic) options.deterministic = true;
  options.device = -1; // RONDO_DEVICE is for the layers; what ranks send is in host memory
  if (config.options.elastic.joined) {
    requireTrainData(config.options); // before other ranks wait for this one
    return joinTraining(config.options.elastic.rendezvous_file, options);
  }
  return Communicator::create(meet, options);
}

/// Whether all ranks ended with the same error. `ends` has the same ranks as `comm` and is used
/// here only, so that this exchange does not mix with exchanges of the run.
bool endedAllRanks(Communicator& comm, Communicator& ends, const std::exception& error) {
  constexpr std::size_t kMost = 4096;          // within exchange()'s limit; errors are shorter
  constexpr std::chrono::seconds kAnswered{5}; // ranks that fail together answer at once
  const auto own = std::as_bytes(std::span(std::string_view(error.what()).substr(0, kMost)));
  try {
    auto told = ends.exchangeAsync(own);
    if (told.wait_for(kAnswered) != std::future_status::ready) endAll(comm, error);
    const auto all = told.get();
    return std::ranges::all_of(all,
                               [&](const auto& other) { return std::ranges::equal(other, own); });
  } catch (const Error&) {
    return false; // a rank is gone
  }
}

/// Prints the error that ended this rank's run. An error that ended all ranks alike is printed
/// once, by rank 0, without a rank.
int say(const std::exception& error, int rank, std::optional<Communicator>& comm,
        std::optional<Communicator>& ends) {
  const bool alike = ends && endedAllRanks(*comm, *ends, error);
  clearProgress();
  if (!alike) return reportError(error, rank);
  return rank == 0 ? reportError(error) : statusOf(error);
}

/// What the lowest rank of an elastic run shows: also how many ranks there are.
std::function<void(const TrainProgress&)> showOf(const Communicator& comm) {
  return [&comm, display = TrainDisplay(), ranks = comm.size()](const TrainProgress& now) mutable {
    const bool changed = std::exchange(ranks, now.ranks) != now.ranks;
    if (comm.rank() != 0) return;
    if (changed || !now.recovery.empty()) {
      clearProgress();
      std::printf("from step %lld on: %d %s%s%s\n", static_cast<long long>(now.total_step),
                  now.ranks, now.ranks == 1 ? "rank" : "ranks", now.recovery.empty() ? "" : "; ",
                  now.recovery.c_str());
    }
    display(now);
  };
}

/// One training run of all ranks.
int trainTogether(Communicator& comm, const TrainConfig& config) {
  std::function<void(const TrainProgress&)> show;
  if (comm.rank() == 0) printHead(config, comm);
  if (!config.options.elastic.ranks.empty()) show = showOf(comm);
  else if (comm.rank() == 0) show = TrainDisplay();
  const TrainReport report = trainOn(comm, config, show);
  if (comm.rank() == 0) {
    if (!config.json.empty()) writeFile(config.json, trainJsonText(config, report, comm.size()));
    printEnd(config, report);
  }
  return report.stopped ? kStopped : kSuccess;
}

int trainRank(const TrainConfig& config, const Rendezvous& meet, int rank) {
  std::optional<Communicator> comm, ends;
  const bool elastic = !config.options.elastic.ranks.empty();
  try {
    if (config.shared()) stopOnSignals(); // also between runs
    comm.emplace(communicator(config, meet));
    if (!elastic) ends = comm->split(0, comm->rank());
    return config.shared() ? shareSweep(*comm, config) : trainTogether(*comm, config);
  } catch (const std::exception& error) {
    return say(error, rank, comm, ends);
  }
}

int trainThreads(const TrainConfig& config) {
  const Rendezvous meet = Rendezvous::inProcess(config.ranks);
  std::vector<int> status(static_cast<std::size_t>(config.ranks), kSuccess);
  onThreads(config.ranks, [&](int rank) {
    status[static_cast<std::size_t>(rank)] = trainRank(config, meet.as(rank), rank);
  });
  return *std::max_element(status.begin(), status.end());
}

} // namespace

bool stopAsked() { return stop_asked != 0; }

TrainReport trainHere(const TrainConfig& config,
                      const std::function<void(const TrainProgress&)>& progress_of_0) {
  const Rendezvous meet = Rendezvous::inProcess(config.ranks);
  std::vector<TrainReport> reports(static_cast<std::size_t>(config.ranks));
  onThreads(config.ranks, [&](int rank) {
    Communicator comm = communicator(config, meet.as(rank));
    reports[static_cast<std::size_t>(rank)] =
        trainOn(comm, config, rank == 0 ? progress_of_0 : nullptr);
  });
  return reports.front();
}

int runTrain(const TrainConfig& config) {
  requireTrainDevice(config.options.device, config.options.precision);
  if (config.show_schedule) {
    std::fputs(trainSchedule(config.options, config.ranks).c_str(), stdout);
    return kSuccess;
  }
  if (!config.launched || Rendezvous::detectLauncher().rank == 0) {
    if (config.shared()) requireRuns(config);
    else if (!config.json.empty()) requireWritable("--json", config.json);
  }
  if (config.threads) return trainThreads(config);
  if (config.launched || config.options.elastic.joined) {
    // A rank that joins by itself has no number before.
    const int rank = config.launched ? Rendezvous::detectLauncher().rank : -1;
    return trainRank(config, Rendezvous::environment(), rank);
  }
  SpawnOptions spawn = ownRanks(config.ranks, config.arguments);
  const bool fit = config.ranks <= static_cast<int>(std::thread::hardware_concurrency());
  const char* const bind = std::getenv("RONDO_BIND");
  if ((!bind || !*bind) && fit) spawn.bind = "core";
  // The ranks themselves know whether MIN are left, also when others join.
  spawn.least = config.options.elastic.ranks.empty() ? 0 : 1;
  spawn.line_begin = clearingText();
  spawn.patient = true; // a stop waits for an evaluation or a long step, and the checkpoint
  return spawnRanks(spawn);
}

} // namespace rondo::tools
