// Compares the ranks' clocks, for traces.
#pragma once

#include "observe/trace.h"

namespace rondo::comm {

class CommunicatorImpl;

/// Collective. How this rank's monotonic clock becomes the trace's time, which is 0 at the begin of
/// the comparison on rank 0. Each rank exchanges short messages with rank 0, one after the other;
/// the one with the shortest round trip counts. The error is half of that time. `on_device`:
/// messages must be in device memory, so the machines' wall clocks count, and the error is unknown.
observe::ClockOffset compareClocks(CommunicatorImpl& comm, bool on_device);

} // namespace rondo::comm
