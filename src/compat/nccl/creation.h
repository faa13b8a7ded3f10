// Helpers of the functions that create communicators.
#pragma once

#include "compat/nccl/handle.h"
#include "rondo/rendezvous.h"

namespace rondo::compat::nccl {

/// Converts an id to NCCL's form.
ncclUniqueId asNccl(const UniqueId& made);
/// And back. The id may be any bytes.
UniqueId asRondo(const ncclUniqueId& id);
/// Returns the rendezvous that the id describes. Throws Error(invalid_argument).
Rendezvous meetingOf(const ncclUniqueId& id, int rank, int size);

/// The configuration of a communicator that is made from another one. As in NCCL, it is the
/// parent's if the program passes none; otherwise fields that are not set have their defaults.
Config configOfChild(const ncclConfig_t* given, const Config& parent);

/// Gives the program the handle of a communicator that is being created. Returns at once inside a
/// group and if not `blocking`; otherwise returns when the communicator is created.
ncclResult_t handOut(ncclComm::Making making, const Config& config, int device, bool blocking,
                     ncclComm_t* comm);
/// As above, for a communicator that is created from `parent`, whose mode says whether the call
/// waits. The parent is busy until the communicator is created. `joins`: whether this rank is a
/// member of the new communicator. If not, the handle is null and an error is reported on the
/// parent.
ncclResult_t handOut(ncclComm::Making making, const Config& config, Member& parent,
                     ncclComm_t* comm, bool joins = true);

/// Implements ncclCommInitRankConfig().
ncclResult_t initRank(ncclComm_t* comm, int nranks, const ncclUniqueId& id, int rank,
                      const ncclConfig_t* config);

} // namespace rondo::compat::nccl
