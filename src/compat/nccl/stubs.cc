// What NVIDIA's library exports and nobody can use here: each call is refused, with its name.
#include <string>

#include "compat/nccl/errors.h"

/// Three numbers, as nccl_device.h has it: ranks, own rank, distance. Here of no ranks.
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

// Whatever their parameters: a caller that passes some finds them untouched.
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
  // As ncclResetDebugInit().
}

} // namespace rondo::compat::nccl
