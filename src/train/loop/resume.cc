// Saves and restores runs: compares the identity of the run, and shares rank 0's values.
#include "train/loop/resume.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "train/loop/agreement.h"
#include "train/loop/checkpoint.h"

namespace rondo::training {

namespace {

std::span<const float> values(const TensorMemory& tensor) {
  return {static_cast<const float*>(tensor.data), tensor.label.bytes() / sizeof(float)};
}

void requireFinite(const Snapshot& snapshot, const Running& run) {
  for (const TensorMemory& one : snapshot.tensors)
    for (float value : values(one))
      if (!std::isfinite(value))
        throw Error(ErrorCode::aborted, "train: after step " + std::to_string(run.at.total) + " " +
                                            one.label.name +
                                            " is not finite: no checkpoint is written");
}

CheckpointValues valuesOf(const Running& run, const Snapshot& snapshot) {
  const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  CheckpointValues all = {{"run", run.identity},
                          {"ranks", number(snapshot.ranks)},
                          {"means", number(snapshot.means)},
                          {"epoch", number(run.at.epoch)},
                          {"step", number(run.at.step)},
                          {"total_steps", number(run.at.total)},
                          {"epoch_losses", run.at.losses},
                          {"optimizer_steps", number(run.at.total * snapshot.updates)}};
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

int ranksOf(const Checkpoint& file) { return static_cast<int>(file.value<std::uint64_t>("ranks")); }

/// Refuses a file if the state that its ranks had for themselves would be lost, or would be missing
/// here. Accepts one whose shared tensors are the means over the ranks.
void checkRanks(const std::string& path, const Checkpoint& file, const Snapshot& snapshot) {
  const int had = ranksOf(file), ranks = snapshot.ranks;
  const bool means = file.values().contains("means") && file.value<std::uint64_t>("means") != 0;
  if ((had == 0 || means) && (ranks == 0 || snapshot.means)) return;
  const std::string wrote = std::to_string(had) + " ranks wrote it, with state of each rank, ";
  const std::string text =
      wrote + "which " +
      (ranks == 0 ? "this run does not use" : std::to_string(ranks) + " ranks cannot use");
  throw Error(ErrorCode::invalid_argument, path + ": " + text);
}

/// The position of the run. It is checked here, since the sampler would accept any position.
Position position(const Checkpoint& file, int epoch_steps, int updates) {
  const auto epoch = file.value<std::uint64_t>("epoch");
  const auto step = file.value<std::uint64_t>("step");
  const auto total = file.value<std::uint64_t>("total_steps");
  const auto steps = static_cast<std::uint64_t>(epoch_steps);
  if (epoch < 1 || epoch > std::uint64_t{std::numeric_limits<int>::max()} || step >= steps ||
      total != (epoch - 1) * steps + step)
    file.fail("has a position that is not in this run: epoch " + std::to_string(epoch) + ", step " +
              std::to_string(step) + ", " + std::to_string(total) +
              " steps in total; epochs have " + std::to_string(steps) + " steps");
  const auto moves = file.value<std::uint64_t>("optimizer_steps");
  if (moves != total * static_cast<std::uint64_t>(updates))
    file.fail("has " + std::to_string(moves) + " optimizer steps for " + std::to_string(total) +
              " steps of the run, but this run makes " + std::to_string(updates) +
              " in each step: it was written with another consistency, or (without bsp) another "
              "number of workers");
  return {.epoch = static_cast<int>(epoch),
          .step = static_cast<int>(step),
          .total = static_cast<std::int64_t>(total),
          .losses = file.value<double>("epoch_losses")};
}

void takeValues(const Checkpoint& file, const Running& run, int updates) {
  run.at = position(file, run.epoch_steps, updates);
  for (int i = 1; i < run.at.epoch; ++i) {
    run.report.epoch_loss.push_back(file.value<double>("loss." + std::to_string(i)));
    run.report.epoch_accuracy.push_back(file.value<double>("accuracy." + std::to_string(i)));
  }
}

} // namespace

void shareValues(Communicator& comm, const Running& run, int root) {
  static_assert(std::is_trivially_copyable_v<Position>);
  comm.broadcast(&run.at, &run.at, sizeof run.at, DataType::uint8, root);
  bool& stopped = run.report.stopped;
  comm.broadcast(&stopped, &stopped, sizeof stopped, DataType::uint8, root);
  for (auto* of : {&run.report.epoch_loss, &run.report.epoch_accuracy}) {
    of->resize(static_cast<std::size_t>(run.at.epoch - 1));
    comm.broadcast(of->data(), of->data(), of->size(), DataType::float64, root);
  }
}

void save(Communicator& comm, const std::string& path, const Running& run) {
  const Snapshot snapshot = run.strategy.snapshot();
  agree(comm, [&]() -> std::string {
    requireFinite(snapshot, run);
    return {};
  });
  agree(comm, [&]() -> std::string {
    if (comm.rank() == 0) writeCheckpoint(path, valuesOf(run, snapshot), snapshot.tensors);
    return {};
  });
}

void restore(Communicator& comm, const std::string& path, const Running& run, bool anew) {
  const Snapshot snapshot = run.strategy.snapshot();
  std::uint8_t whole = 1;
  agree(comm, [&]() -> std::string {
    if (comm.rank() != 0) return {};
    const Checkpoint file(path);
    checkIdentity(file, run);
    std::vector<TensorMemory> tensors = snapshot.tensors;
    // If only the file or only the run has slow momentum, the run goes on from the means.
    const bool same = !snapshot.means || file.hasJust(tensors);
    whole = ranksOf(file) == snapshot.ranks && same ? 1 : 0;
    if (whole == 0) {
      if (!anew) checkRanks(path, file, snapshot);
      std::erase_if(tensors, [](const TensorMemory& one) { return one.each_rank; });
    }
    file.restore(tensors, whole != 0);
    takeValues(file, run, snapshot.updates);
    return {};
  });
  shareValues(comm, run, 0);
  comm.broadcast(&whole, &whole, 1, DataType::uint8, 0);
  if (whole != 0) run.strategy.adopt(run.at);
  else run.strategy.adoptShared(run.at);
}

} // namespace rondo::training
