/* A stand-in of the CUDA driver without devices. Its streams do their work when a program waits for
 * them. */
#ifndef COMPAT_NCCL_DRIVER_H
#define COMPAT_NCCL_DRIVER_H

/* What a cudaStream_t points to. */
typedef struct {
  void (*work)(void*);
  void* argument;
} Stream;

/* An address for which the driver says that only devices can read it. */
#define ON_DEVICE ((void*)0x10000)

#endif
