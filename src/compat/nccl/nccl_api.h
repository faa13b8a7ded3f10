/* NCCL's functions and their pnccl twins, declared anew: what libnccl.so.2 exports. For C and C++.
 * A program that was compiled with NVIDIA's nccl.h calls the same; what each function does there,
 * it does here, but for what src/compat/README.md says. */
#ifndef RONDO_COMPAT_NCCL_API_H
#define RONDO_COMPAT_NCCL_API_H

#include "compat/nccl/types.h"

/* As CUDA's headers name it; 0 is the default stream. */
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
