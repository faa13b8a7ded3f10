// The MPI module, loaded only if an MPI launcher is found and no rendezvous is set.
#pragma once

#include "rondo/rendezvous.h"

namespace rondo::bootstrap {

/// Collective over the ranks of the launch: rank 0 makes an id, and MPI broadcasts it. Throws
/// Error(init_failed) if the module cannot be used, with the variable to set instead.
UniqueId exchangeByMpi(const LaunchInfo& launch, const Options& options);

} // namespace rondo::bootstrap
