// The rendezvous of a group's processes, through torch.distributed's Store.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "rondo/communicator.h"
#include "rondo/options.h"

namespace rondo::compat {

/// Collective. Rank 0 creates Rondo's id, which contains the job's secret, and puts it into the
/// store, whose readers are trusted. The id is removed before this returns on any rank, so the same
/// store can be used again. Throws rondo::Error on all ranks if rank 0 could not create an id, and
/// on ranks that got none before the timeout. Other exceptions of the store are passed on.
Communicator meet(c10d::Store& store, int rank, int size, const Options& options);

} // namespace rondo::compat
