// Collectives on an intercommunicator, which every interposer must pass on.
#pragma once

#include "communicators.h"
#include "progress.h"

namespace compat {

/// Collective over `world`; with one rank it does nothing.
void checkIntercommunicator(const Communicator& world, Progress& progress);

} // namespace compat
