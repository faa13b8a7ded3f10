// Runs a training job: finds or starts the ranks, shows progress, writes the report.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rondo/train.h"
#include "tools/spawn.h"

namespace rondo::tools {

struct TrainConfig {
  TrainOptions options;
  int ranks = 2;
  bool launched = false; ///< this process is one of the ranks already
  bool threads = false;
  bool joins = false;         ///< one more rank for an elastic run
  bool show_schedule = false; ///< print the schedule instead of training
  bool deterministic = false;
  std::string transport; ///< empty: the communicator's choice
  std::string json;      ///< file to write; empty: none
  std::string sweep;     ///< file of a sweep to run instead of one training run; empty: none
  bool parallel = false; ///< the ranks train different lines of the sweep
  std::string results;   ///< file of the results of a sweep or of folds, to continue; empty: none
  std::vector<std::string> arguments;

  /// Whether it trains all folds.
  bool allFolds() const { return options.folds.count > 0 && options.folds.number == 0; }
  /// Whether the ranks train different runs instead of one together.
  bool shared() const { return parallel || allFolds(); }
};

/// Returns the same exit statuses as runBench(), and kStopped if SIGINT or SIGTERM ended it
/// after a step.
int runTrain(const TrainConfig& config);

/// Whether a signal has asked the run to end.
bool stopAsked();

/// Trains on threads of this process; returns rank 0's report.
TrainReport trainHere(const TrainConfig& config,
                      const std::function<void(const TrainProgress&)>& progress_of_0);

/// All options that decide the result of a run, as one line of JSON: an object.
std::string trainOptionsText(const TrainConfig& config);
std::string hashText(std::uint64_t hash); ///< in hexadecimal

/// One JSON object: version, args, options, ranks (at the end), test_accuracy, epoch_loss,
/// epoch_accuracy, parameter_hash (hexadecimal text), steps, stopped, step_ms (the median),
/// step_parts_ms (data, forward, backward, exposed_communication, optimizer), samples_per_second,
/// bytes_per_step (by the strategy's formula), held_bytes, seconds. A pipeline adds the object
/// pipeline: its parts (layers, forward_ms, backward_ms), idle_even, idle_predicted, idle_measured.
std::string trainJsonText(const TrainConfig& config, const TrainReport& report, int ranks);

} // namespace rondo::tools
