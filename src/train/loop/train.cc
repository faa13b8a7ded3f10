// rondo::train(): checks that all ranks can train, then runs the trainer on each.
#include "rondo/train.h"

#include <chrono>
#include <optional>
#include <thread>

#include "train/loop/agreement.h"
#include "train/loop/compute_threads.h"
#include "train/loop/crew.h"
#include "train/loop/files.h"
#include "train/loop/settings.h"
#include "train/loop/stopwatch.h"
#include "train/loop/trainer.h"
#include "train/parallel/strategy.h"

namespace rondo {

namespace training {
namespace {

/// The communicators that a strategy makes have rank numbers of their own, and they also fail when
/// a rank leaves because another one failed. If a rank of the job is lost, `comm` fails too, a
/// little later. Returns the failure of `comm`, with the rank numbers that the caller knows, if
/// there is one.
std::optional<Error> lossAsAllKnowIt(const Communicator& comm, const Error& error) {
  using enum ErrorCode;
  const bool lost =
      error.code() == peer_dead || error.code() == unresponsive || error.code() == aborted;
  if (!lost) return std::nullopt;
  constexpr std::chrono::milliseconds kHeard{1000}, kPause{2};
  const Clock::time_point limit = Clock::now() + kHeard;
  while (!comm.failure() && Clock::now() < limit) std::this_thread::sleep_for(kPause);
  return comm.failure();
}

TrainReport run(Communicator& comm, const TrainOptions& options, const Data& data,
                const std::function<void(const TrainProgress&)>& progress) {
  const auto strategy = strategyFor(options, comm.size()).make({comm, options, data});
  return Trainer(comm, options, data, *strategy, progress).run();
}

} // namespace
} // namespace training

TrainReport train(Communicator& comm, const TrainOptions& options,
                  const std::function<void(const TrainProgress&)>& progress) {
  const training::Stopwatch watch;
  training::Data data;
  const training::ComputeThreads threads;
  const auto prepare = [&] {
    training::agree(comm, [&] {
      training::check(options, comm.size());
      // Files that are only written at the end are checked here, before any work is done.
      if (comm.rank() == 0) training::requireFiles(options);
      if (data.train.size() == 0) data = training::load(options);
      return training::describe(options, data);
    });
  };
  prepare();
  try {
    TrainReport report = options.elastic.ranks.empty()
                             ? training::run(comm, options, data, progress)
                             : training::trainElastic(comm, options, data, progress, prepare);
    report.seconds = watch.read() / 1000;
    return report;
  } catch (const Error& error) {
    if (const auto known = training::lossAsAllKnowIt(comm, error)) throw *known;
    throw;
  }
}

void requireTrainData(const TrainOptions& options) { training::load(options); }

std::string trainSchedule(const TrainOptions& options, int ranks) {
  training::check(options, ranks);
  const training::StrategyKind& kind = training::strategyFor(options, ranks);
  if (kind.show == nullptr)
    throw Error(ErrorCode::unsupported,
                "train: strategy " + options.strategy + " has no schedule that can be shown");
  return kind.show(options, training::load(options).train, ranks);
}

} // namespace rondo
