// How the processes of a group find each other: by the Store that torch.distributed has.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "rondo/communicator.h"
#include "rondo/options.h"

namespace rondo::compat {

/// Collective. Rank 0 makes Rondo's id, with the job's secret in it, and puts it into the store,
/// whose readers are trusted; it is gone from there when this returns on any rank, so a store may
/// serve again. Throws rondo::Error, on all ranks where rank 0 could not make an id, and on
/// those that it left without one; what the store throws else passes.
Communicator meet(c10d::Store& store, int rank, int size, const Options& options);

} // namespace rondo::compat
