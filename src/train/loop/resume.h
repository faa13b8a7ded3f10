// What a checkpoint holds of a training run, and how a run goes on from it.
#pragma once

#include <cstdint>
#include <string>

#include "rondo/train.h"
#include "train/parallel/strategy.h"

namespace rondo::training {

/// All that the next step depends on.
struct Running {
  Strategy& strategy;
  Position& at;
  TrainReport& report;         ///< of the epochs that ended
  const std::string& identity; ///< what must be the same when the run goes on
  int epoch_steps;
};

/// Collective. Rank 0 writes the file; an error there is thrown on every rank. Throws
/// Error(aborted) and writes nothing if a value of the model is not finite.
void save(Communicator& comm, const std::string& path, const Running& run);

/// Collective. Rank 0 reads the file, and all ranks take over what it holds. Throws, on every rank,
/// Error(data) for a file that cannot be read or belongs to another run (both named), and
/// Error(invalid_argument) where the number of ranks may not change.
void restore(Communicator& comm, const std::string& path, const Running& run);

} // namespace rondo::training
