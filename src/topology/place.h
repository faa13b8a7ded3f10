// Places of ranks: this thread's, as they travel, and how near two of them are.
#pragma once

#include <string>

#include "base/codec.h"
#include "rondo/place.h"
#include "topology/link.h"

namespace rondo::topology {

/// Different in every process of the world.
std::uint64_t processToken();

/// What no other machine is called, and no other boot of this one.
std::string machineName();
/// What this node is called: `given`, or where that is empty, the machine and the network on it,
/// which ranks have in common that may share memory.
std::string nodeName(const std::string& given);

/// Of the calling thread, with what nodeName() says.
Place ownPlace(const std::string& node);

void write(base::Writer& out, const Place& place);
/// Throws Error(transport) as the reader does.
Place readPlace(base::Reader& in);

/// Between ranks. Ranks of different nodes are linked by the network, whatever else they share.
Link linkBetween(const Place& a, const Place& b);

/// "processor 3, core 3 of package 0"; for a rank that may run anywhere "processors 0-7".
std::string text(const Place& place);

} // namespace rondo::topology
