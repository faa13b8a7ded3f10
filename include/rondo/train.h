// Data-parallel training of small image classifiers, on any communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "rondo/export.h"

namespace rondo {

struct TrainOptions {
  std::string model = "mlp"; ///< "mlp": 784-256-128-64-10, ReLU
  std::string data;          ///< folder of the *-ubyte.gz files; "": defaultDataFolder()
  int epochs = 5;
  int batch = 128;    ///< samples of one step over all ranks and micro-batches
  int accumulate = 1; ///< micro-batches per rank and step, summed locally
  double learning_rate = 0.02;
  double momentum = 0.9;
  std::uint64_t seed = 1;        ///< of the initial weights and the sampler
  std::size_t limit_samples = 0; ///< use only the first training samples; 0: all
  /// The hash of all parameters is compared over the ranks after so many steps, and after each
  /// epoch; 0: never. It reads all parameters: each step it would cost a small model some percent.
  int verify_every = 50;
};

/// Sent to the progress callback of every rank after each step.
struct TrainProgress {
  int epoch, epochs, step, steps; ///< the first epoch and step are 1
  double loss;                    ///< mean over the step's samples, all ranks
  double samples_per_second;      ///< since the epoch began, all ranks
  double test_accuracy =
      -1; ///< in [0, 1] after the last step of an epoch, which is evaluated first
};

struct TrainReport {
  double test_accuracy = 0;           ///< over all test samples, in [0, 1]
  std::vector<double> epoch_loss;     ///< mean training loss of each epoch
  std::vector<double> epoch_accuracy; ///< test accuracy after each epoch
  std::uint64_t parameter_hash = 0;   ///< of all parameters, equal on all ranks
  double seconds = 0;
};

/// Collective. Each rank trains on its share of every step's samples; a GradientReducer sums the
/// gradients while the backward pass goes on (BSP). After each epoch the test set is evaluated,
/// shared out too. Every rank returns the same report but for `seconds`.
///
/// Data: train-images-idx3, train-labels-idx1, t10k-images-idx3, t10k-labels-idx1 (-ubyte.gz), 28 x
/// 28 grey images of 10 classes. Every rank reads its own copy. An epoch's last, incomplete step is
/// left out.
///
/// Order. A step's samples depend on (seed, epoch) only. They are split into size() * accumulate
/// micro-batches, of which rank r takes r * accumulate to (r+1) * accumulate - 1: N ranks with A
/// micro-batches see the same ones as 1 rank with N*A. Gradients are summed over micro-batches from
/// left to right, then over ranks, and scaled by 1/batch behind that. So with
/// Options::deterministic N ranks with accumulate 1 train bit for bit as 1 rank with accumulate N
/// does, for every N; other splits (2 ranks with 2 against 1 rank with 4) differ by rounding.
///
/// Threads: matrix products run on one thread per rank, or on OMP_NUM_THREADS.
///
/// Errors, the same on every rank: data for a missing or damaged file (named), invalid_argument,
/// mismatch when ranks hold different options, data or parameters, unsupported in a build without
/// oneDNN.
RONDO_API TrainReport train(Communicator& comm, const TrainOptions& options,
                            const std::function<void(const TrainProgress&)>& progress = {});

/// Where Debian's dataset-fashion-mnist puts the files, or $RONDO_DATA if set.
RONDO_API std::string defaultDataFolder();

} // namespace rondo
