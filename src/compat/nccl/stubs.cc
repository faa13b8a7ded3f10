// Functions that NVIDIA's library exports and Rondo does not support. Each call is refused with an
// error that names the function.

#include "compat/nccl/errors.h"

/// Declared as in nccl_device.h: number of ranks, own rank, distance. Here always zeros.
struct ncclTeam {
  int ranks, rank, stride;
};

namespace rondo::compat::nccl {

namespace {

ncclResult_t refuseStub(const char* name) {
  return answer(name, []() -> ncclResult_t {
    refuse(ncclInvalidUsage, "Rondo's library has the name only, so that programs load");
  });
}

} // namespace

// Declared without parameters. Arguments that a caller passes are not read or changed.
#define STUB(name) \
  NCCL_EXPORT(ncclResult_t, name, (void)) { return refuseStub("nccl" #name); }
#include "compat/nccl/stubs.def"
#undef STUB

#define TEAM(name)                      \
  NCCL_EXPORT(ncclTeam, name, (void)) { \
    refuseStub("nccl" #name);           \
    return {};                          \
  }
TEAM(TeamWorld)
TEAM(TeamLsa)
TEAM(TeamRail)
TEAM(TeamCft)
TEAM(TeamCftMultimem)
#undef TEAM

#define NUMBER(name)               \
  NCCL_EXPORT(int, name, (void)) { \
    refuseStub("nccl" #name);      \
    return -1;                     \
  }
NUMBER(TeamRankToWorld)
NUMBER(TeamRankToLsa)
NUMBER(LLA2ACalcSlots)
#undef NUMBER

NCCL_EXPORT(void, ResetDebugInitInternal, (void)) {
  // Nothing to reset, as in ncclResetDebugInit().
}

} // namespace rondo::compat::nccl
