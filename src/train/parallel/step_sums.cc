#include "train/parallel/step_sums.h"

#include <algorithm>

#include "train/add.h"
#include "train/parallel/end_work.h"

namespace rondo::training {

StepSums::StepSums(Communicator& comm, const TrainOptions& options, std::span<float> statistics)
    : comm_(comm),
      options_(options),
      statistics_(statistics),
      earlier_(options.accumulate > 1 ? statistics.size() : 0) {}

StepSums::~StepSums() {
  for (Work* work : {&sent_, &statistics_sent_}) endWork(*work, {&comm_}, "a step of this rank");
}

void StepSums::begin() { sums_ = {0, options_.stop && options_.stop() ? 1.0 : 0.0}; }

void StepSums::addStatistics(bool first) {
  if (earlier_.empty()) return;
  if (!first) add(statistics_.data(), earlier_.data(), earlier_.size());
  std::copy(statistics_.begin(), statistics_.end(), earlier_.begin());
}

void StepSums::send() {
  static_assert(sizeof sums_ == 2 * sizeof(double));
  sent_ = comm_.allReduceAsync(&sums_, &sums_, 2, DataType::float64, ReduceOp::sum);
  if (!statistics_.empty()) statistics_sent_ = comm_.allReduceAsync(statistics_, ReduceOp::sum);
}

void StepSums::wait() {
  sent_.wait();
  statistics_sent_.wait();
}

} // namespace rondo::training
