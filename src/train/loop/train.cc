// rondo::train(): the ranks agree that they can train, then each does its half.
#include <chrono>

#include "rondo/train.h"
#include "train/loop/agreement.h"
#include "train/loop/settings.h"
#include "train/loop/trainer.h"
#include "train/product.h"

namespace rondo {

TrainReport train(Communicator& comm, const TrainOptions& options,
                  const std::function<void(const TrainProgress&)>& progress) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  training::Data data;
  training::agree(comm, [&] {
    training::requireProducts();
    training::check(options, comm.size());
    data = training::load(options);
    return training::describe(options, data);
  });
  const training::ComputeThreads threads;
  TrainReport report = training::Trainer(comm, options, std::move(data)).run(progress);
  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return report;
}

} // namespace rondo
