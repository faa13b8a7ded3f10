/* The C interface between the library and the module that uses MPI. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Writes this process's rank and size in MPI_COMM_WORLD. Initializes MPI if the program has not;
 * MPI is then finalized when the process exits. Returns null, or an error text (static). */
typedef const char* (*rondo_mpi_start_function)(int* rank, int* size);
/* Collective: broadcasts rank 0's 128 bytes. Returns null, or an error text (static). */
typedef const char* (*rondo_mpi_broadcast_function)(void* bytes128);

__attribute__((visibility("default"))) const char* rondo_mpi_start(int* rank, int* size);
__attribute__((visibility("default"))) const char* rondo_mpi_broadcast(void* bytes128);

#ifdef __cplusplus
}
#endif
