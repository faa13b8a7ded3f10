/* Our own declarations of the types of NCCL's ABI, version 2.28, and of those that newer.def needs.
 * Names, sizes, field orders and values are the ABI's; header_check.cc proves it if the toolkit has
 * an nccl.h of 2.28 to 2.32, and for the types of newer.def only if it is of 2.32. Plain C that
 * needs no CUDA header. */
#ifndef RONDO_COMPAT_NCCL_TYPES_H
#define RONDO_COMPAT_NCCL_TYPES_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/* A fixed underlying type, since programs may pass any number: in C++ too, each number is then a
 * valid value of the enumeration. */
#ifdef __cplusplus
#define RONDO_NCCL_INT : int
#else
#define RONDO_NCCL_INT
#endif

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;

enum { RONDO_NCCL_VERSION = 22809, RONDO_NCCL_ID_BYTES = 128 };

typedef struct {
  char internal[128];
} ncclUniqueId;

typedef enum RONDO_NCCL_INT {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;

/* The value of a configuration field that the program did not set. */
#define RONDO_NCCL_UNSET INT_MIN

/* The order of the fields is part of the ABI: clients fill the structure from an initializer. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;

typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* microseconds */
} ncclSimInfo_t;

#define RONDO_NCCL_CONFIG_MAGIC 0xcafebeefU
#define RONDO_NCCL_SIMULATION_MAGIC 0x74685283U

/* The configuration of one collective (2.32). */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  struct ncclConfigExt* ext; /* options of other vendors' libraries */
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection;
  int forceAlgSelection;
  int CTAPolicy;
  uint64_t userProfilerTag;
  struct CUevent_st* launchCompletionEvent;
} ncclCollConfig_t;

typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int mode; /* 0: plain text, 1: a key that is known to all ranks */
  const char* psk;
} ncclEncryptionConfig_t;

typedef struct ncclParamHandle* ncclParamHandle_t;

typedef enum RONDO_NCCL_INT {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5, /* number of built-in operators; a program's own operators begin here */
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum RONDO_NCCL_INT {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum RONDO_NCCL_INT {
  ncclScalarDevice = 0,
  ncclScalarHostImmediate = 1
} ncclScalarResidence_t;

#endif
