/* NCCL's declarations, NVIDIA's or (OWN_HEADER) ours, and what the test programs share. */
#ifndef COMPAT_NCCL_HEADER_H
#define COMPAT_NCCL_HEADER_H

#ifdef OWN_HEADER
#include "compat/nccl/nccl_api.h"
#define UNSET RONDO_NCCL_UNSET
#define NCCL_CONFIG_INITIALIZER                                                                    \
  {                                                                                                \
    sizeof(ncclConfig_t), RONDO_NCCL_CONFIG_MAGIC, RONDO_NCCL_VERSION, UNSET, UNSET, UNSET, UNSET, \
        NULL, UNSET, UNSET, NULL, UNSET, UNSET, UNSET, UNSET, UNSET, UNSET                         \
  }
#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), RONDO_NCCL_SIMULATION_MAGIC, RONDO_NCCL_VERSION, -1.0F }
#else
#include <nccl.h>
#endif

#include <stdio.h>
#include <stdlib.h>

enum { MOST_RANKS = 8 };

/* Ends the process with a line that says where. */
#define REQUIRE(condition)                                                                    \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
              ncclGetLastError(NULL));                                                        \
      _Exit(1);                                                                               \
    }                                                                                         \
  } while (0)
#define OK(call) REQUIRE((call) == ncclSuccess)

/* The ranks that a thread holds: one, or all of them. */
typedef struct {
  int size;  /* of the communicator */
  int count; /* held here */
  int ranks[MOST_RANKS];
  ncclComm_t comms[MOST_RANKS];
} Held;

typedef void (*Body)(Held* held);

/* Runs the body on ranks that are "processes", "threads", or all held by "one" thread. They have a
 * communicator if `made`, which is destroyed afterwards unless the body set it to null. */
int runRanks(const char* how, int size, int made, Body body);

/* The id that rank 0 makes, on every rank; one after the other, as a collective. */
ncclUniqueId exchangedId(int rank, int size);

double now(void); /* seconds */

/* Sums ones: the number of ranks that took part. */
int sumOf(ncclComm_t comm);
/* Whether the last error has these words. */
int says(const char* text);
/* Polls until the communicator is at rest. */
ncclResult_t settled(ncclComm_t comm);
/* A call that may be on its way on return. */
void finished(ncclResult_t result, ncclComm_t comm);

#endif
