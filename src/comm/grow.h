// Makes a communicator of the ranks of another one and of new ranks.
#pragma once

#include <memory>
#include <optional>

#include "bootstrap/session.h"
#include "rondo/options.h"
#include "rondo/rendezvous.h"

namespace rondo::comm {

class CommunicatorImpl;

/// One rank's arguments of Communicator::grow().
struct Growth {
  int newcomers = 0;
  std::optional<UniqueId> id;
};

/// Collective over the ranks of `old`; implements Communicator::grow().
std::shared_ptr<CommunicatorImpl> openGrown(bootstrap::Session& old, const Growth& own,
                                            const Options& options);

} // namespace rondo::comm
