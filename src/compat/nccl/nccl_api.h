/* Our own declarations of the NCCL functions that libnccl.so.2 exports, and of their pnccl aliases.
 * For C and C++. Programs that were compiled with NVIDIA's nccl.h call the same functions. Each
 * does what NVIDIA's does; src/compat/README.md lists the exceptions. */
#ifndef RONDO_COMPAT_NCCL_API_H
#define RONDO_COMPAT_NCCL_API_H

#include "compat/nccl/types.h"

/* The same type as in CUDA's headers. 0 is the default stream. */
typedef struct CUstream_st* cudaStream_t;

#ifdef __cplusplus
extern "C" {
#endif

#define FUNCTION(result, name, parameters) \
  result nccl##name parameters;            \
  result pnccl##name parameters;
#include "compat/nccl/functions.def"
#include "compat/nccl/newer.def"
#undef FUNCTION

#ifdef __cplusplus
}
#endif

#endif
