// What the calls that make communicators share.
#pragma once

#include "compat/nccl/handle.h"
#include "rondo/rendezvous.h"

namespace rondo::compat::nccl {

/// NCCL's form of an id.
ncclUniqueId asNccl(const UniqueId& made);
/// Where the ranks of an id meet. Throws Error(invalid_argument).
Rendezvous meetingOf(const ncclUniqueId& id, int rank, int size);

/// Hands out the communicator that is being made: at once in a group, or where the program does not
/// wait; else when it is there.
ncclResult_t handOut(ncclComm::Making making, const Config& config, int device, ncclComm_t* comm);
/// As handOut() of what is made from `parent`, which is busy until then. `joins`: whether this rank
/// is in the new communicator; its handle is null if not, and an error is the parent's.
ncclResult_t handOut(ncclComm::Making making, const Config& config, Member& parent,
                     ncclComm_t* comm, bool joins = true);

/// ncclCommInitRankConfig().
ncclResult_t initRank(ncclComm_t* comm, int nranks, const ncclUniqueId& id, int rank,
                      const ncclConfig_t* config);

} // namespace rondo::compat::nccl
