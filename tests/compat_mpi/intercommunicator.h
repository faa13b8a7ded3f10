// Collectives on an intercommunicator, which every library must leave as they are.
#pragma once

#include "communicators.h"
#include "progress.h"

namespace compat {

/// Collective over `world`; with one rank there is nothing to do.
void checkIntercommunicator(const Communicator& world, Progress& progress);

} // namespace compat
