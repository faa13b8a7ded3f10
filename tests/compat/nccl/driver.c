/* Becomes a libcuda.so.1 for streams.c. */
#include "driver.h"

#include <stddef.h>

enum { OK = 0, NO_MEMORY = 2, INVALID_VALUE = 1, MEMORY_TYPE = 2, DEVICE = 2 };

int cuInit(unsigned flags) {
  (void)flags;
  return OK;
}

int cuDeviceGetCount(int* count) {
  *count = 0;
  return OK;
}

int cuCtxGetDevice(int* device) {
  *device = 0;
  return OK;
}

int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  (void)address, (void)bytes;
  return NO_MEMORY;
}

int cuMemFree_v2(unsigned long long address) {
  (void)address;
  return OK;
}

int cuStreamSynchronize(Stream* stream) {
  stream->work(stream->argument);
  return OK;
}

int cuPointerGetAttribute(void* value, int attribute, unsigned long long address) {
  if (address != (unsigned long long)(size_t)ON_DEVICE || attribute != MEMORY_TYPE)
    return INVALID_VALUE;
  *(unsigned*)value = DEVICE;
  return OK;
}
