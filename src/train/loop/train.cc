// rondo::train(): the ranks agree that they can train, then each does its half.
#include "rondo/train.h"

#include "train/loop/agreement.h"
#include "train/loop/compute_threads.h"
#include "train/loop/settings.h"
#include "train/loop/stopwatch.h"
#include "train/loop/trainer.h"

namespace rondo {

TrainReport train(Communicator& comm, const TrainOptions& options,
                  const std::function<void(const TrainProgress&)>& progress) {
  const training::Stopwatch watch;
  training::Data data;
  std::unique_ptr<training::Replica> replica;
  const training::ComputeThreads threads;
  training::agree(comm, [&] {
    training::check(options, comm.size());
    data = training::load(options);
    replica = std::make_unique<training::Replica>(options.model, data.train.shape,
                                                  data.train.classes, options.seed);
    return training::describe(options, data);
  });
  TrainReport report = training::Trainer(comm, options, data, *replica, progress).run();
  report.seconds = watch.read() / 1000;
  return report;
}

} // namespace rondo
