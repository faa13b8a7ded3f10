// Copies the state of a run, and gives it to ranks that go on.
#include "train/loop/held.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace rondo::training {

namespace {

/// How far a rank is. The end of an epoch is further than its last step.
struct Claim {
  std::int64_t total = -1, epoch = 0;
  bool operator<(const Claim& other) const {
    return std::tie(total, epoch) < std::tie(other.total, other.epoch);
  }
};

std::size_t elements(const TensorMemory& tensor) { return tensor.label.bytes() / sizeof(float); }

/// All ranks get the mean of those that hold a value.
void average(Communicator& comm, float* values, std::size_t count, bool holds, float holders) {
  if (!holds) std::fill_n(values, count, 0.0F);
  std::vector<float> sums(count);
  comm.allReduce(values, sums.data(), count, DataType::float32, ReduceOp::sum);
  std::transform(sums.begin(), sums.end(), values, [&](float sum) { return sum / holders; });
}

} // namespace

Held hold(const Running& run) {
  Held held{.any = true, .at = run.at, .report = run.report, .tensors = {}};
  for (const TensorMemory& one : run.strategy.held()) {
    const auto* values = static_cast<const float*>(one.data);
    held.tensors.emplace_back(values, values + elements(one));
  }
  return held;
}

bool rebuild(Communicator& comm, const Held& own, const Running& run) {
  std::vector<Claim> claims(static_cast<std::size_t>(comm.size()));
  const Claim claim = own.any ? Claim{own.at.total, own.at.epoch} : Claim();
  comm.allGather(&claim, claims.data(), sizeof claim, DataType::uint8);
  const auto furthest = std::max_element(claims.begin(), claims.end());
  if (furthest->total < 0) return false;
  const int source = static_cast<int>(furthest - claims.begin());
  const auto holders =
      std::count_if(claims.begin(), claims.end(), [](const Claim& one) { return one.total >= 0; });
  const std::vector<TensorMemory> tensors = run.strategy.held();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto* values = static_cast<float*>(tensors[i].data);
    const std::size_t count = elements(tensors[i]);
    if (own.any) std::copy(own.tensors[i].begin(), own.tensors[i].end(), values);
    if (run.strategy.differs()) average(comm, values, count, own.any, static_cast<float>(holders));
    else comm.broadcast(values, values, count, DataType::float32, source);
  }
  if (own.any) {
    run.at = own.at;
    run.report = own.report;
  }
  shareValues(comm, run, source);
  run.strategy.snapshot();
  run.strategy.adopt(run.at);
  return true;
}

} // namespace rondo::training
