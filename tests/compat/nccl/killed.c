/* Kills a rank. Within a second, and without making a call, all others learn of it; their calls
 * end, they continue without it, and clean up. usage: killed RANKS VICTIM
 * Rank 0 makes the id, so its process hosts the control plane. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "header.h"

static int victim;

static void survive(Held* held) {
  const ncclComm_t comm = held->comms[0];
  int one = 1, sum = 0;
  OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, 0));
  if (held->ranks[0] == victim) {
    /* A rank sends when its AllReduce has ended. */
    for (int rank = 0; rank < held->size; ++rank)
      if (rank != victim) OK(ncclRecv(&sum, 1, ncclInt, rank, comm, 0));
    usleep(100000); /* so that the others' sends have usually ended */
    raise(SIGKILL);
  }
  const ncclResult_t sent = ncclSend(&one, 1, ncclInt, victim, comm, 0);
  REQUIRE(sent == ncclSuccess || sent == ncclRemoteError); /* the victim may have died by now */
  const double begin = now();
  ncclResult_t state = ncclSuccess;
  while (state == ncclSuccess && now() < begin + 10) {
    OK(ncclCommGetAsyncError(comm, &state));
    usleep(1000);
  }
  const double took = now() - begin;
  REQUIRE(state == ncclRemoteError);
  REQUIRE(strstr(ncclGetLastError(comm), "rank") && strstr(ncclGetLastError(comm), "died"));
  if (held->ranks[0] == !victim) printf("heard of it after %.0f ms\n", 1e3 * took);
  REQUIRE(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, 0) == ncclRemoteError);
  ncclComm_t rest = NULL;
  OK(ncclCommShrink(comm, &victim, 1, &rest, NULL, 1));
  OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, rest, 0));
  REQUIRE(sum == held->size - 1);
  OK(ncclCommDestroy(rest));
  if (held->ranks[0] % 2 == 0) OK(ncclCommRevoke(comm, 0));
  OK(held->ranks[0] % 2 == 0 ? ncclCommDestroy(comm) : ncclCommAbort(comm));
  held->comms[0] = NULL;
}

int main(int count, char** words) {
  REQUIRE(count == 3);
  victim = atoi(words[2]);
  const int failed = runRanks("processes", atoi(words[1]), 1, survive);
  if (!failed) printf("ok\n");
  return failed;
}
