// Checks at compile time that our declarations of NCCL's ABI match a toolkit's nccl.h, of version
// 2.28 to 2.32: a newer one may have more fields, which must not break a build. Generates no code.
#define NCCL_OS_LINUX // newer headers declare ncclResetDebugInit() only then
#include <nccl.h>

#include <type_traits>

#if NCCL_VERSION_CODE >= 22800 && NCCL_VERSION_CODE < 23300

namespace ours {
#include "compat/nccl/types.h" // types only: functions of C have one name in all namespaces
} // namespace ours

#define FUNCTION(result, name, parameters)                                \
  static_assert(std::is_same_v<decltype(nccl##name), result parameters>); \
  static_assert(std::is_same_v<decltype(pnccl##name), result parameters>);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "compat/nccl/functions.def"
#if NCCL_VERSION_CODE >= 23200
#include "compat/nccl/newer.def"
#endif
#undef FUNCTION

#define SAME_VALUE(name) static_assert(static_cast<long>(ours::name) == static_cast<long>(::name))
SAME_VALUE(ncclSuccess);
SAME_VALUE(ncclUnhandledCudaError);
SAME_VALUE(ncclSystemError);
SAME_VALUE(ncclInternalError);
SAME_VALUE(ncclInvalidArgument);
SAME_VALUE(ncclInvalidUsage);
SAME_VALUE(ncclRemoteError);
SAME_VALUE(ncclInProgress);
SAME_VALUE(ncclSum);
SAME_VALUE(ncclProd);
SAME_VALUE(ncclMax);
SAME_VALUE(ncclMin);
SAME_VALUE(ncclAvg);
SAME_VALUE(ncclNumOps);
SAME_VALUE(ncclMaxRedOp);
SAME_VALUE(ncclInt8);
SAME_VALUE(ncclUint8);
SAME_VALUE(ncclInt32);
SAME_VALUE(ncclUint32);
SAME_VALUE(ncclInt64);
SAME_VALUE(ncclUint64);
SAME_VALUE(ncclFloat16);
SAME_VALUE(ncclFloat32);
SAME_VALUE(ncclFloat64);
SAME_VALUE(ncclBfloat16);
SAME_VALUE(ncclFloat8e4m3);
SAME_VALUE(ncclFloat8e5m2);
SAME_VALUE(ncclNumTypes);
SAME_VALUE(ncclScalarDevice);
SAME_VALUE(ncclScalarHostImmediate);

#if NCCL_VERSION_CODE < 22900
SAME_VALUE(ncclNumResults);
static_assert(ours::RONDO_NCCL_VERSION >= NCCL_VERSION_CODE);
static_assert(sizeof(ours::ncclConfig_t) == sizeof(::ncclConfig_t));
#else
// Newer versions have more fields, after these.
static_assert(sizeof(ours::ncclConfig_t) < sizeof(::ncclConfig_t));
#endif
static_assert(static_cast<int>(ours::RONDO_NCCL_ID_BYTES) == NCCL_UNIQUE_ID_BYTES);
static_assert(RONDO_NCCL_UNSET == NCCL_CONFIG_UNDEF_INT);
static_assert(sizeof(ours::ncclUniqueId) == sizeof(::ncclUniqueId));
static_assert(sizeof(ours::ncclRedOp_t) == sizeof(::ncclRedOp_t));

#define SAME_FIELD(type, field)                                           \
  static_assert(offsetof(ours::type, field) == offsetof(::type, field) && \
                std::is_same_v<decltype(ours::type::field), decltype(::type::field)>)
SAME_FIELD(ncclConfig_t, size);
SAME_FIELD(ncclConfig_t, magic);
SAME_FIELD(ncclConfig_t, version);
SAME_FIELD(ncclConfig_t, blocking);
SAME_FIELD(ncclConfig_t, cgaClusterSize);
SAME_FIELD(ncclConfig_t, minCTAs);
SAME_FIELD(ncclConfig_t, maxCTAs);
SAME_FIELD(ncclConfig_t, netName);
SAME_FIELD(ncclConfig_t, splitShare);
SAME_FIELD(ncclConfig_t, trafficClass);
SAME_FIELD(ncclConfig_t, commName);
SAME_FIELD(ncclConfig_t, collnetEnable);
SAME_FIELD(ncclConfig_t, CTAPolicy);
SAME_FIELD(ncclConfig_t, shrinkShare);
SAME_FIELD(ncclConfig_t, nvlsCTAs);
SAME_FIELD(ncclConfig_t, nChannelsPerNetPeer);
SAME_FIELD(ncclConfig_t, nvlinkCentricSched);
static_assert(sizeof(ours::ncclSimInfo_t) == sizeof(::ncclSimInfo_t));
SAME_FIELD(ncclSimInfo_t, size);
SAME_FIELD(ncclSimInfo_t, magic);
SAME_FIELD(ncclSimInfo_t, version);
SAME_FIELD(ncclSimInfo_t, estimatedTime);

// NCCL's initializers must compile, with the field order of the client's header.
constexpr ::ncclConfig_t kConfig = NCCL_CONFIG_INITIALIZER;
static_assert(kConfig.magic == RONDO_NCCL_CONFIG_MAGIC && kConfig.size == sizeof(kConfig));
constexpr ::ncclSimInfo_t kSimulation = NCCL_SIM_INFO_INITIALIZER;
static_assert(kSimulation.magic == RONDO_NCCL_SIMULATION_MAGIC);

#if NCCL_VERSION_CODE >= 23200
static_assert(sizeof(ours::ncclCollConfig_t) == sizeof(::ncclCollConfig_t));
SAME_FIELD(ncclCollConfig_t, size);
SAME_FIELD(ncclCollConfig_t, magic);
SAME_FIELD(ncclCollConfig_t, version);
SAME_FIELD(ncclCollConfig_t, minCTAs);
SAME_FIELD(ncclCollConfig_t, maxCTAs);
SAME_FIELD(ncclCollConfig_t, nvlsCTAs);
SAME_FIELD(ncclCollConfig_t, cgaClusterSize);
SAME_FIELD(ncclCollConfig_t, algSelection);
SAME_FIELD(ncclCollConfig_t, forceAlgSelection);
SAME_FIELD(ncclCollConfig_t, CTAPolicy);
SAME_FIELD(ncclCollConfig_t, userProfilerTag);
static_assert(offsetof(ours::ncclCollConfig_t, launchCompletionEvent) ==
              offsetof(::ncclCollConfig_t, launchCompletionEvent));
static_assert(sizeof(ours::ncclEncryptionConfig_t) == sizeof(::ncclEncryptionConfig_t));
SAME_FIELD(ncclEncryptionConfig_t, size);
SAME_FIELD(ncclEncryptionConfig_t, magic);
SAME_FIELD(ncclEncryptionConfig_t, version);
SAME_FIELD(ncclEncryptionConfig_t, mode);
SAME_FIELD(ncclEncryptionConfig_t, psk);
constexpr ::ncclCollConfig_t kCall = NCCL_COLLCONFIG_INITIALIZER;
static_assert(kCall.magic == RONDO_NCCL_CONFIG_MAGIC && kCall.size == sizeof(kCall));
constexpr ::ncclEncryptionConfig_t kEncryption = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
static_assert(kEncryption.magic == RONDO_NCCL_CONFIG_MAGIC &&
              kEncryption.size == sizeof(kEncryption) && kEncryption.mode == 0);
#endif

#endif
