/* Starts the ranks of the test programs, and passes ids between them through a shared page. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "header.h"

enum { MOST_IDS = 64 };

/* State that all ranks share, also if they are processes. */
typedef struct {
  atomic_int made[MOST_IDS];
  ncclUniqueId ids[MOST_IDS];
} Page;
static Page* page;
static int numbers[MOST_RANKS]; /* number of the next id, by rank */

typedef struct {
  Body body;
  int made;
  Held held;
} Start;

double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

ncclUniqueId exchangedId(int rank, int size) {
  const int number = numbers[rank]++;
  (void)size;
  REQUIRE(number < MOST_IDS);
  if (rank == 0) {
    OK(ncclGetUniqueId(&page->ids[number]));
    atomic_store(&page->made[number], 1);
  }
  while (!atomic_load(&page->made[number])) usleep(100);
  return page->ids[number];
}

int sumOf(ncclComm_t comm) {
  int one = 1, sum = 0;
  OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, 0));
  return sum;
}

int says(const char* text) { return strstr(ncclGetLastError(NULL), text) != NULL; }

ncclResult_t settled(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  for (const double end = now() + 20; state == ncclInProgress && now() < end; usleep(100))
    OK(ncclCommGetAsyncError(comm, &state));
  return state;
}

void finished(ncclResult_t result, ncclComm_t comm) {
  REQUIRE(result == ncclSuccess || result == ncclInProgress);
  REQUIRE(settled(comm) == ncclSuccess);
}

static void runOne(Start* start) {
  Held* const held = &start->held;
  if (start->made && held->count == 1)
    OK(ncclCommInitRank(&held->comms[0], held->size, exchangedId(held->ranks[0], held->size),
                        held->ranks[0]));
  else if (start->made) OK(ncclCommInitAll(held->comms, held->size, NULL));
  start->body(held);
  for (int i = 0; i < held->count; ++i)
    if (held->comms[i]) OK(ncclCommDestroy(held->comms[i]));
}

static void* runThread(void* start) {
  runOne(start);
  return NULL;
}

static Start startOf(int first, int count, int size, int made, Body body) {
  Start start = {body, made, {size, count, {0}, {NULL}}};
  for (int i = 0; i < count; ++i) start.held.ranks[i] = first + i;
  return start;
}

/* Runs each rank in a process. A body that kills ranks sets the signal that is expected. */
static int runProcesses(int size, int made, Body body) {
  pid_t children[MOST_RANKS];
  int failed = 0;
  fflush(NULL); /* otherwise children would print buffered output again */
  for (int rank = 0; rank < size; ++rank) {
    children[rank] = fork();
    if (children[rank] == 0) {
      Start start = startOf(rank, 1, size, made, body);
      runOne(&start);
      exit(0);
    }
  }
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    const int killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!killed && status != 0) {
      fprintf(stderr, "rank %d of %d ended with status %d\n", rank, size, status);
      failed = 1;
    }
  }
  return failed;
}

int runRanks(const char* how, int size, int made, Body body) {
  page = mmap(NULL, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  memset(numbers, 0, sizeof numbers);
  if (strcmp(how, "processes") == 0) return runProcesses(size, made, body);
  if (strcmp(how, "one") == 0) {
    Start start = startOf(0, size, size, made, body);
    runOne(&start);
    return 0;
  }
  pthread_t threads[MOST_RANKS];
  Start starts[MOST_RANKS];
  for (int rank = 0; rank < size; ++rank) {
    starts[rank] = startOf(rank, 1, size, made, body);
    REQUIRE(pthread_create(&threads[rank], NULL, runThread, &starts[rank]) == 0);
  }
  for (int rank = 0; rank < size; ++rank) pthread_join(threads[rank], NULL);
  return 0;
}
