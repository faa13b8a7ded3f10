// Runs a training job: finds or starts the ranks, shows progress, writes the report.
#include "tools/train.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <thread>

#include "rondo/communicator.h"
#include "tools/bench/json.h"
#include "tools/command.h"
#include "tools/spawn.h"

namespace rondo::tools {

namespace {

/// What rank 0 shows while it trains.
class ProgressDisplay {
 public:
  void operator()(const TrainProgress& progress) {
    loss_sum_ += progress.loss;
    ++steps_;
    const bool ended = progress.test_accuracy >= 0;
    const auto now = std::chrono::steady_clock::now();
    if (terminal_ && !ended && now - drawn_ > std::chrono::milliseconds(100)) {
      drawn_ = now;
      std::printf("\r%s\x1b[K", progressLine(progress, columns()).c_str());
      std::fflush(stdout);
    }
    if (!ended) return;
    std::printf("%s%s\n", terminal_ ? "\r\x1b[K" : "",
                epochLine(progress, loss_sum_ / steps_).c_str());
    std::fflush(stdout);
    loss_sum_ = 0;
    steps_ = 0;
  }

 private:
  static std::size_t columns() {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
  }

  bool terminal_ = isatty(STDOUT_FILENO) != 0;
  double loss_sum_ = 0;
  int steps_ = 0;
  std::chrono::steady_clock::time_point drawn_{};
};

void printHead(const TrainConfig& config, const Communicator& comm) {
  const TrainOptions& options = config.options;
  std::printf("model %s, %d %s over %s, batch %d, learning rate %g, momentum %g%s\n",
              options.model.c_str(), comm.size(), comm.size() == 1 ? "rank" : "ranks",
              comm.transportTo((comm.rank() + 1) % comm.size()).c_str(), options.batch,
              options.learning_rate, options.momentum,
              config.deterministic ? ", deterministic" : "");
  std::fflush(stdout);
}

int trainRank(const TrainConfig& config, const Rendezvous& meet, int rank) {
  try {
    Options options = Options::fromEnvironment();
    if (!config.transport.empty()) options.transports = config.transport;
    if (config.deterministic) options.deterministic = true;
    Communicator comm = Communicator::create(meet, options);
    std::function<void(const TrainProgress&)> show;
    if (rank == 0) {
      printHead(config, comm);
      show = ProgressDisplay();
    }
    TrainReport report;
    try {
      report = train(comm, config.options, show);
    } catch (const Error&) {
      throw; // the library has told the other ranks where it concerns them
    } catch (const std::exception& error) {
      comm.abort("rank " + std::to_string(rank) + ": " + error.what());
      throw;
    }
    if (rank != 0) return kSuccess;
    if (!config.json.empty()) writeFile(config.json, trainJsonText(config, report));
    std::printf("trained in %.1f s, parameter hash %016llx\n", report.seconds,
                static_cast<unsigned long long>(report.parameter_hash));
    std::printf("test accuracy %.4f\n", report.test_accuracy);
    std::fflush(stdout);
    return kSuccess;
  } catch (const std::exception& error) {
    return reportError(error, rank);
  }
}

int trainThreads(const TrainConfig& config) {
  const Rendezvous meet = Rendezvous::inProcess(config.ranks);
  std::vector<int> status(static_cast<std::size_t>(config.ranks), kSuccess);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < config.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      status[static_cast<std::size_t>(rank)] = trainRank(config, meet.as(rank), rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(status.begin(), status.end());
}

} // namespace

int runTrain(const TrainConfig& config) {
  if (config.threads) return trainThreads(config);
  if (config.launched) {
    return trainRank(config, Rendezvous::environment(), Rendezvous::detectLauncher().rank);
  }
  SpawnOptions spawn;
  spawn.ranks = config.ranks;
  spawn.command = {ownExecutable()};
  spawn.command.insert(spawn.command.end(), config.arguments.begin(), config.arguments.end());
  spawn.pin = static_cast<std::size_t>(config.ranks) <= availableCores().size();
  spawn.report_status = false; // the ranks say what is wrong
  return spawnRanks(spawn);
}

std::string progressLine(const TrainProgress& progress, std::size_t columns) {
  std::array<char, 64> head, tail;
  std::snprintf(head.data(), head.size(), "epoch %d/%d [", progress.epoch, progress.epochs);
  std::snprintf(tail.data(), tail.size(), "] %d/%d  loss %.4f  %.0f samples/s", progress.step,
                progress.steps, progress.loss, progress.samples_per_second);
  const std::string before = head.data(), behind = tail.data();
  const std::size_t used = before.size() + behind.size() + 1;
  const std::size_t width = columns > used ? std::min<std::size_t>(columns - used, 40) : 0;
  const double part = progress.steps > 0 ? static_cast<double>(progress.step) / progress.steps : 0;
  const auto full = std::min(width, static_cast<std::size_t>(part * static_cast<double>(width)));
  return before + std::string(full, '=') + std::string(width - full, ' ') + behind;
}

std::string epochLine(const TrainProgress& progress, double epoch_loss) {
  std::array<char, 128> line;
  std::snprintf(line.data(), line.size(),
                "epoch %d/%d: loss %.4f, test accuracy %.4f, %.0f samples/s", progress.epoch,
                progress.epochs, epoch_loss, progress.test_accuracy, progress.samples_per_second);
  return line.data();
}

} // namespace rondo::tools
