// rondo::train(): the ranks agree that they can train, then each does its half.
#include "rondo/train.h"

#include "train/loop/agreement.h"
#include "train/loop/compute_threads.h"
#include "train/loop/settings.h"
#include "train/loop/stopwatch.h"
#include "train/loop/trainer.h"
#include "train/parallel/strategy.h"

namespace rondo {

TrainReport train(Communicator& comm, const TrainOptions& options,
                  const std::function<void(const TrainProgress&)>& progress) {
  const training::Stopwatch watch;
  training::Data data;
  const training::ComputeThreads threads;
  training::agree(comm, [&] {
    training::check(options, comm.size());
    data = training::load(options);
    return training::describe(options, data);
  });
  const auto strategy = training::strategyFor(options, comm.size()).make({comm, options, data});
  TrainReport report = training::Trainer(comm, options, data, *strategy, progress).run();
  report.seconds = watch.read() / 1000;
  return report;
}

std::string trainSchedule(const TrainOptions& options, int ranks) {
  training::check(options, ranks);
  const training::StrategyKind& kind = training::strategyFor(options, ranks);
  if (kind.show == nullptr)
    throw Error(ErrorCode::unsupported,
                "train: strategy " + options.strategy + " has no plan that could be shown");
  return kind.show(options, training::load(options).train, ranks);
}

} // namespace rondo
