// Saves a training run to a checkpoint, and restores it.
#pragma once

#include <cstdint>
#include <string>

#include "rondo/train.h"
#include "train/parallel/strategy.h"

namespace rondo::training {

/// Everything that the next step depends on.
struct Running {
  Strategy& strategy;
  Position& at;
  TrainReport& report;         ///< of the complete epochs
  const std::string& identity; ///< what must be equal when the run is resumed
  int epoch_steps;
};

/// Collective. Rank 0 writes the file; every rank throws its errors. If a value of the model is not
/// finite, throws Error(aborted) and writes nothing.
void save(Communicator& comm, const std::string& path, const Running& run);

/// Collective. Rank 0 reads the file and shares its contents with all ranks. Throws on every rank:
/// Error(data), which names the file, if it cannot be read or belongs to another run;
/// Error(invalid_argument) if it has state of each rank (residuals) for another number of ranks,
/// unless `anew`: then that state begins anew. So does that of ranks with models of their own: they
/// go on from the means.
void restore(Communicator& comm, const std::string& path, const Running& run, bool anew = false);

/// Collective. Gives the position and report of rank `root` to all ranks.
void shareValues(Communicator& comm, const Running& run, int root);

} // namespace rondo::training
