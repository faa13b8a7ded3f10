#include "train/parallel/whole_model.h"

#include <algorithm>

#include "train/data/sampler.h"
#include "train/loop/agreement.h"
#include "train/parallel/recipe.h"

namespace rondo::training {

WholeModel::WholeModel(const Setup& setup)
    : comm_(setup.comm), data_(setup.data), test_(data_.test, data_.statistics, kTestBatch) {
  agree(comm_, [&]() -> std::string {
    replica_ = std::make_unique<Replica>(
        setup.options.model, data_.train.shape, data_.train.classes, setup.options.seed,
        computeOf(setup.options.device, setup.options.precision, comm_));
    return {};
  });
}

std::uint64_t WholeModel::verify(const std::string& when) {
  const std::uint64_t hash = replica_->hash();
  compareHashes(comm_, hash, when);
  // ReLU turns NaN into 0, so the loss may stay finite. The values are equal on all ranks here.
  const std::string weight = replica_->firstNotFinite();
  if (!weight.empty())
    throw Error(ErrorCode::aborted, when + ": the values of " + weight + " are not finite");
  return hash;
}

double WholeModel::evaluate() {
  const std::size_t samples = data_.test.size();
  const std::size_t batches = (samples + kTestBatch - 1) / kTestBatch;
  const Range own = share(batches, static_cast<std::size_t>(comm_.rank()),
                          static_cast<std::size_t>(comm_.size()));
  std::uint64_t correct = 0;
  for (std::size_t batch = own.begin; batch < own.end; ++batch) {
    const std::size_t begin = batch * kTestBatch;
    const std::size_t count = std::min(kTestBatch, samples - begin);
    correct += replica_->network().evaluate(test_.load(begin, count)).correct;
  }
  comm_.allReduce(&correct, &correct, 1, DataType::uint64, ReduceOp::sum);
  return static_cast<double>(correct) / static_cast<double>(samples);
}

std::vector<TensorMemory> WholeModel::tensors(Optimizer& optimizer) {
  std::vector<TensorMemory> all;
  for (const Weight* weight : replica_->weights())
    all.push_back({{"weight." + weight->name, weight->shape}, weight->value});
  for (const Weight* weight : replica_->state())
    all.push_back({{"state." + weight->name, weight->shape}, weight->value});
  for (StateArray& one : optimizer.state())
    all.push_back({{"optimizer." + one.name, one.shape}, one.values.data()});
  return all;
}

std::vector<StatePart> WholeModel::parts(Optimizer& optimizer) {
  std::vector<StatePart> all;
  for (const TensorMemory& one : tensors(optimizer))
    all.push_back(
        {one.label.name, 0, {static_cast<float*>(one.data), one.label.bytes() / sizeof(float)}});
  return all;
}

void WholeModel::broadcast(const std::vector<TensorMemory>& tensors) {
  for (const TensorMemory& one : tensors)
    comm_.broadcast(one.data, one.data, one.label.bytes() / sizeof(float), DataType::float32, 0);
  replica_->network().weightsChanged();
}

} // namespace rondo::training
