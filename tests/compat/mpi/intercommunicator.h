// Collectives on an intercommunicator, which every interposer must pass on.
#pragma once

#include "communicators.h"
#include "progress.h"

namespace rondo::test {

/// Collective over `world`; with one rank it does nothing.
void checkIntercommunicator(const Communicator& world, Progress& progress);

} // namespace rondo::test
