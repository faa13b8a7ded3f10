/* The C interface between the library and the module that knows MPI. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Starts MPI if nobody has (it is then ended when the process exits); writes this process's place
 * in MPI_COMM_WORLD. Returns null, or what went wrong (a static text). */
typedef const char* (*rondo_mpi_start_function)(int* rank, int* size);
/* Collective: rank 0's 128 bytes on all ranks. Returns as above. */
typedef const char* (*rondo_mpi_broadcast_function)(void* bytes128);

__attribute__((visibility("default"))) const char* rondo_mpi_start(int* rank, int* size);
__attribute__((visibility("default"))) const char* rondo_mpi_broadcast(void* bytes128);

#ifdef __cplusplus
}
#endif
