/* Includes NVIDIA's declarations or (OWN_HEADER) ours, and declares helpers of the test programs.
 */
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

/* If the condition is false, prints the place and ends the process. */
#define REQUIRE(condition)                                                                    \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
              ncclGetLastError(NULL));                                                        \
      _Exit(1);                                                                               \
    }                                                                                         \
  } while (0)
#define OK(call) REQUIRE((call) == ncclSuccess)

/* The ranks of one thread: one, or all of them. */
typedef struct {
  int size;  /* number of ranks of the communicator */
  int count; /* number of ranks of this thread */
  int ranks[MOST_RANKS];
  ncclComm_t comms[MOST_RANKS];
} Held;

typedef void (*Body)(Held* held);

/* Runs the body on ranks that are "processes", "threads", or all in "one" thread. If `made`, they
 * get a communicator, which is destroyed afterwards unless the body has set it to null. */
int runRanks(const char* how, int size, int made, Body body);

/* Rank 0 creates an id; returns it on every rank. All ranks must call it in the same order. */
ncclUniqueId exchangedId(int rank, int size);

double now(void); /* seconds */

/* Returns the number of ranks, by an AllReduce of ones. */
int sumOf(ncclComm_t comm);
/* Whether the last error contains the text. */
int says(const char* text);
/* Polls until the communicator is no longer in progress. Returns its state. */
ncclResult_t settled(ncclComm_t comm);
/* Waits for a call that may still be in progress; it must succeed. */
void finished(ncclResult_t result, ncclComm_t comm);

#endif
