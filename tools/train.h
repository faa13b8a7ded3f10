// Runs a training job: finds or starts the ranks, shows progress, writes the report.
#pragma once

#include <string>
#include <vector>

#include "rondo/train.h"

namespace rondo::tools {

struct TrainConfig {
  TrainOptions options;
  int ranks = 2;
  bool launched = false; ///< this process is one of the ranks already
  bool threads = false;
  bool deterministic = false;
  std::string transport; ///< empty: the communicator's choice
  std::string json;      ///< file to write; empty: none
  std::vector<std::string> arguments;
};

/// Exit status as that of runBench().
int runTrain(const TrainConfig& config);

/// One object: version, args, options, ranks, test_accuracy, epoch_loss, epoch_accuracy,
/// parameter_hash (hexadecimal text), seconds.
std::string trainJsonText(const TrainConfig& config, const TrainReport& report);

/// "epoch 2/5 [=====>    ] 230/469  loss 0.4321  51234 samples/s", for a line `columns` wide.
std::string progressLine(const TrainProgress& progress, std::size_t columns);
/// "epoch 2/5: loss 0.4321, test accuracy 0.8612, 51234 samples/s".
std::string epochLine(const TrainProgress& progress, double epoch_loss);

} // namespace rondo::tools
