// The MPI module, opened only when a launcher of MPI programs is found and nothing else helps.
#pragma once

#include "rondo/rendezvous.h"

namespace rondo::bootstrap {

/// Collective over the ranks of the launch, through MPI: rank 0's id on all ranks. Rank 0 makes it.
/// Throws Error(init_failed) when the module cannot be used, with what to set instead.
UniqueId exchangeByMpi(const LaunchInfo& launch, const Options& options);

} // namespace rondo::bootstrap
