// What rank 0 prints during a training run: a progress bar on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "rondo/train.h"

namespace rondo::tools {

/// "epoch 2/5 [=====>    ] 230/469  loss 0.4321  51234 samples/s", for a line `columns` wide.
std::string progressLine(const TrainProgress& progress, std::size_t columns);
/// "epoch 2/5: loss 0.4321, test accuracy 0.8612, 51234 samples/s".
std::string epochLine(const TrainProgress& progress);
/// "epoch 2/5, step 230/469: loss 0.4321, 51234 samples/s".
std::string stepLine(const TrainProgress& progress);
/// "step 1.21 ms: data 0.01, forward 0.40, backward 0.66, communication 0.05, optimizer 0.09"; for
/// a rank without layers "step 1.21 ms, on a rank that only serves".
std::string timesLine(const TrainTimes& times);

/// Clears the progress bar, if standard output is a terminal: the next text begins there.
void clearProgress();
/// The characters that clear the progress bar, for standard error; "" unless standard output and
/// standard error are terminals.
const char* clearingText();

class TrainDisplay {
 public:
  void operator()(const TrainProgress& progress);

 private:
  bool terminal_ = isTerminal();
  std::chrono::steady_clock::time_point drawn_ = std::chrono::steady_clock::now();

  static bool isTerminal();
};

} // namespace rondo::tools
