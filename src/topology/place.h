// Place of this thread, and how near the places of two ranks are to each other.
#pragma once

#include <string>

#include "base/codec.h"
#include "rondo/place.h"
#include "topology/link.h"

namespace rondo::topology {

/// A random number that differs between all processes.
std::uint64_t processToken();

/// A name that is unique to this machine and to this boot of it.
std::string machineName();
/// Name of this node: `given`, or, if that is empty, machine and network namespace, which are equal
/// for ranks that may share memory.
std::string nodeName(const std::string& given);

/// Place of the calling thread; `node` is what nodeName() returned.
Place ownPlace(const std::string& node);

void write(base::Writer& out, const Place& place);
/// Throws Error(transport), as base::Reader does.
Place readPlace(base::Reader& in);

/// Link between two ranks. Ranks of different nodes are linked by the network, even on one machine.
Link linkBetween(const Place& a, const Place& b);

/// "processor 3, one core of package 0", or "processors 0-7" for a rank that is not bound.
std::string text(const Place& place);

} // namespace rondo::topology
