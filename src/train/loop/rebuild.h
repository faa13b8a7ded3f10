// Gives the state of a run, which ranks hold in memory, to the ranks that go on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rondo/train.h"
#include "train/loop/held.h"
#include "train/loop/resume.h"

namespace rondo::training {

struct Rebuilt {
  enum class State {
    none,    ///< no rank has made a step
    present, ///< the strategy has it
    lost     ///< no rank has some shard
  } state = State::none;
  std::string shards;       ///< which shards are lost, or from where they come; "": all are there
  std::int32_t changes = 0; ///< of the ranks so far
  std::int64_t total = -1;  ///< the step that the state is of
  std::int64_t saved = -1;  ///< as Held::saved
  std::vector<Kept> kept;   ///< what this rank has of it, if it is present
};

/// Collective, on a new strategy of all ranks. Gives it the newest state that the ranks have all
/// shards of (or the mean of the ranks' states, if they differ), and `run` its position and report.
/// Changes nothing unless it is present.
Rebuilt rebuild(Communicator& comm, const Held& own, const Running& run);

} // namespace rondo::training
