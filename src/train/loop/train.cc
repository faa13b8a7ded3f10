// rondo::train(): checks that all ranks can train, then runs the trainer on each.
#include "rondo/train.h"

#include <chrono>

#include "train/loop/agreement.h"
#include "train/loop/compute_threads.h"
#include "train/loop/elastic.h"
#include "train/loop/files.h"
#include "train/loop/settings.h"
#include "train/loop/stopwatch.h"
#include "train/loop/trainer.h"
#include "train/parallel/strategy.h"

namespace rondo {

namespace training {
namespace {

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
  const bool elastic = !options.elastic.ranks.empty();
  if (!elastic || !options.elastic.joined) prepare();
  try {
    TrainReport report = elastic ? training::trainElastic(comm, options, data, progress, prepare)
                                 : training::run(comm, options, data, progress);
    report.seconds = watch.read() / 1000;
    return report;
  } catch (const Error& error) {
    using namespace std::chrono_literals;
    // The caller knows the rank numbers of `comm`. An elastic run has waited for its failure.
    const auto known =
        elastic ? training::failureOf(comm, error, 0s) : training::failureOf(comm, error);
    if (known) throw *known;
    throw;
  }
}

void requireTrainOptions(const TrainOptions& options, int ranks) {
  training::check(options, ranks);
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
