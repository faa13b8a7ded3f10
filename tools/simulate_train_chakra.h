// Writes simulated steps as Chakra execution traces, which ASTRA-sim reads.
#pragma once

#include <string>

#include "model/tasks.h"
#include "tools/simulate_train_steps.h"

namespace rondo::tools {

/// The trace of one rank: a message GlobalMetadata and a message Node for each task, each after its
/// length, in the wire format of Protocol Buffers (schema: et_def.proto of MLCommons' Chakra).
/// Passes are COMP_NODEs, collectives COMM_COLL_NODEs, messages COMM_SEND_NODEs and
/// COMM_RECV_NODEs. Durations are whole microseconds. Times of communication are left out: the
/// simulator that reads the trace has a network of its own.
std::string chakraTrace(const SimulatedSteps& steps, int rank);

/// Writes PREFIX.RANK.et for each rank. Throws Error(system) if a file cannot be written.
void writeChakra(const std::string& prefix, const SimulatedSteps& steps, int ranks);

} // namespace rondo::tools
