// Runs a training job: finds or starts the ranks, shows progress, writes the report.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rondo/train.h"

namespace rondo::tools {

struct TrainConfig {
  TrainOptions options;
  int ranks = 2;
  bool launched = false; ///< this process is one of the ranks already
  bool threads = false;
  bool show_schedule = false; ///< in place of training
  bool deterministic = false;
  std::string transport; ///< empty: the communicator's choice
  std::string json;      ///< file to write; empty: none
  std::string sweep;     ///< file of a sweep to train in place of one run; empty: none
  std::vector<std::string> arguments;
};

/// Exit status as that of runBench(); kStopped where SIGINT or SIGTERM ended it behind a step.
int runTrain(const TrainConfig& config);
/// Throws what this machine cannot train with, in one line before any rank begins.
void requireHere(const TrainOptions& options);
inline constexpr int kStopped = 130; ///< what shells make of SIGINT

/// Whether a signal has asked the run to end.
bool stopAsked();

/// What training on threads of this process gave.
TrainReport trainHere(const TrainConfig& config,
                      const std::function<void(const TrainProgress&)>& progress_of_0);

/// One object: version, args, options, ranks, test_accuracy, epoch_loss, epoch_accuracy,
/// parameter_hash (hexadecimal text), steps, stopped, step_ms (the median) and
/// step_parts_ms (of data, forward, backward, exposed_communication, optimizer),
/// samples_per_second, bytes_per_step (the strategy's formula), held_bytes, seconds; of a
/// pipeline also pipeline: its parts (layers, forward_ms, backward_ms), idle_even, idle_predicted,
/// idle_measured.
std::string trainJsonText(const TrainConfig& config, const TrainReport& report);

} // namespace rondo::tools
