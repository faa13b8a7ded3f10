#include "train/loop/resume.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "train/loop/agreement.h"
#include "train/loop/checkpoint.h"

namespace rondo::training {

namespace {

/// The arrays of a run that are the same on all ranks, where they stand.
std::vector<TensorMemory> tensors(const Running& run) {
  std::vector<TensorMemory> all;
  for (const Weight* weight : run.replica.weights())
    all.push_back({{"weight." + weight->name, weight->shape}, weight->value});
  for (const Weight* weight : run.replica.state())
    all.push_back({{"state." + weight->name, weight->shape}, weight->value});
  for (StateArray& one : run.stepper.optimizer().state())
    all.push_back({{"optimizer." + one.name, one.shape}, one.values.data()});
  return all;
}

std::span<float> values(const TensorMemory& tensor) {
  return {static_cast<float*>(tensor.data), tensor.label.bytes() / sizeof(float)};
}

/// What the hooks of all ranks keep, which differs: of each array one behind the other's.
class HookArrays {
 public:
  /// Of this rank's hook; the memory is rank 0's alone.
  HookArrays(Communicator& comm, const Running& run) : comm_(comm), own_(run.stepper.hookState()) {
    if (comm.rank() != 0) return;
    for (const GradientHookArray& one : own_) all_.emplace_back(one.values.size() * ranks());
  }

  void gather() {
    for (std::size_t i = 0; i < own_.size(); ++i)
      comm_.gather(own_[i].values.data(), whole(i), own_[i].values.size(), DataType::float32, 0);
  }
  void scatter() {
    for (std::size_t i = 0; i < own_.size(); ++i)
      comm_.scatter(whole(i), own_[i].values.data(), own_[i].values.size(), DataType::float32, 0);
  }
  void describe(std::vector<TensorMemory>& into) {
    for (std::size_t i = 0; i < own_.size(); ++i)
      into.push_back({{"hook." + own_[i].name, {ranks(), own_[i].values.size()}}, whole(i)});
  }
  bool any() const { return !own_.empty(); }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(comm_.size()); }
  float* whole(std::size_t i) { return comm_.rank() == 0 ? all_[i].data() : nullptr; }

  Communicator& comm_;
  const std::vector<GradientHookArray> own_;
  std::vector<std::vector<float>> all_;
};

void requireFinite(const Running& run) {
  for (const TensorMemory& one : tensors(run))
    for (float value : values(one))
      if (!std::isfinite(value))
        throw Error(ErrorCode::aborted, "train: after step " + std::to_string(run.at.total) + " " +
                                            one.label.name +
                                            " is not finite: no checkpoint is written");
}

CheckpointValues valuesOf(const Running& run, int ranks) {
  const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  CheckpointValues all = {{"run", run.identity},
                          {"ranks", number(ranks)},
                          {"epoch", number(run.at.epoch)},
                          {"step", number(run.at.step)},
                          {"total_steps", number(run.at.total)},
                          {"epoch_losses", run.at.losses},
                          {"optimizer_steps", run.stepper.optimizer().steps()}};
  for (std::size_t i = 0; i < run.report.epoch_loss.size(); ++i) {
    all["loss." + std::to_string(i + 1)] = run.report.epoch_loss[i];
    all["accuracy." + std::to_string(i + 1)] = run.report.epoch_accuracy[i];
  }
  return all;
}

void checkIdentity(const Checkpoint& file, const Running& run) {
  const std::string& there = file.value<std::string>("run");
  if (there == run.identity) return;
  const auto [theirs, ours] = firstDifference(there, run.identity);
  file.fail("is a checkpoint of another run: it has " + theirs + ", this run has " + ours);
}

void checkRanks(const std::string& path, const Checkpoint& file, int ranks) {
  const auto had = file.value<std::uint64_t>("ranks");
  if (had == static_cast<std::uint64_t>(ranks)) return;
  throw Error(ErrorCode::invalid_argument, path + ": " + std::to_string(had) +
                                               " ranks wrote it, with what the hook of each of " +
                                               "them kept, which " + std::to_string(ranks) +
                                               " cannot take over");
}

/// Where the run stood. The sampler takes any place for one that there is.
Position position(const Checkpoint& file, int epoch_steps) {
  const auto epoch = file.value<std::uint64_t>("epoch");
  const auto step = file.value<std::uint64_t>("step");
  const auto total = file.value<std::uint64_t>("total_steps");
  const auto steps = static_cast<std::uint64_t>(epoch_steps);
  if (epoch < 1 || epoch > std::uint64_t{std::numeric_limits<int>::max()} || step >= steps ||
      total != (epoch - 1) * steps + step || file.value<std::uint64_t>("optimizer_steps") != total)
    file.fail("is a checkpoint of no place in this run: epoch " + std::to_string(epoch) +
              ", step " + std::to_string(step) + ", " + std::to_string(total) +
              " steps in all; epochs have " + std::to_string(steps) + " steps");
  return {.epoch = static_cast<int>(epoch),
          .step = static_cast<int>(step),
          .total = static_cast<std::int64_t>(total),
          .losses = file.value<double>("epoch_losses")};
}

void takeValues(const Checkpoint& file, const Running& run) {
  run.at = position(file, run.stepper.epochSteps());
  run.stepper.optimizer().setSteps(static_cast<std::uint64_t>(run.at.total));
  for (int i = 1; i < run.at.epoch; ++i) {
    run.report.epoch_loss.push_back(file.value<double>("loss." + std::to_string(i)));
    run.report.epoch_accuracy.push_back(file.value<double>("accuracy." + std::to_string(i)));
  }
}

/// Gives all ranks rank 0's position and report.
void shareValues(Communicator& comm, const Running& run) {
  std::uint64_t steps = run.stepper.optimizer().steps();
  comm.broadcast(&steps, &steps, 1, DataType::uint64, 0);
  run.stepper.optimizer().setSteps(steps);
  static_assert(std::is_trivially_copyable_v<Position>);
  comm.broadcast(&run.at, &run.at, sizeof run.at, DataType::uint8, 0);
  for (auto* of : {&run.report.epoch_loss, &run.report.epoch_accuracy}) {
    of->resize(static_cast<std::size_t>(run.at.epoch - 1));
    comm.broadcast(of->data(), of->data(), of->size(), DataType::float64, 0);
  }
}

} // namespace

void save(Communicator& comm, const std::string& path, const Running& run) {
  agree(comm, [&]() -> std::string {
    requireFinite(run);
    return {};
  });
  HookArrays hooks(comm, run);
  hooks.gather();
  agree(comm, [&]() -> std::string {
    if (comm.rank() != 0) return {};
    std::vector<TensorMemory> all = tensors(run);
    hooks.describe(all);
    writeCheckpoint(path, valuesOf(run, hooks.any() ? comm.size() : 0), all);
    return {};
  });
}

void restore(Communicator& comm, const std::string& path, const Running& run) {
  HookArrays hooks(comm, run);
  agree(comm, [&]() -> std::string {
    if (comm.rank() != 0) return {};
    const Checkpoint file(path);
    checkIdentity(file, run);
    checkRanks(path, file, hooks.any() ? comm.size() : 0);
    std::vector<TensorMemory> all = tensors(run);
    hooks.describe(all);
    file.restore(all);
    takeValues(file, run);
    return {};
  });
  shareValues(comm, run);
  for (const TensorMemory& one : tensors(run))
    comm.broadcast(one.data, one.data, values(one).size(), DataType::float32, 0);
  hooks.scatter();
  run.replica.network().weightsChanged();
}

} // namespace rondo::training
