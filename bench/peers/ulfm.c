// Reduces until a rank dies, revokes and shrinks the communicator by MPI's User Level Failure
// Mitigation (ULFM), and reduces with the new one. For bench/recovery, as
// tests/faults/programs/recovering.cc, whose lines it prints:
//
//   ready RANK PID                                   after some calls
//   recovered RANK SIZE RANKS KNOWN SHRUNK REDUCED   after the first correct MPI_Allreduce of the
//                                                    new communicator; times in nanoseconds
//   refused RANK TEXT                                if that failed
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { kCount = 1000 };

static int rank;

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void refuse(const char* text) {
  printf("refused %d %s\n", rank, text);
  fflush(stdout);
  _exit(1);
}

// Adds up a bit of each rank, and ones. Returns MPI's code; `bits` is 0 after a wrong result.
static int reduce(MPI_Comm comm, uint64_t* bits) {
  static uint64_t in[kCount], out[kCount];
  int size = 0;
  MPI_Comm_size(comm, &size);
  for (int i = 0; i < kCount; ++i) in[i] = 1;
  in[0] = UINT64_C(1) << rank;
  const int result = MPI_Allreduce(in, out, kCount, MPI_UINT64_T, MPI_SUM, comm);
  *bits = out[0];
  for (int i = 1; i < kCount; ++i)
    if (out[i] != (uint64_t)size) *bits = 0;
  return result;
}

int main(int argc, char** argv) {
  uint64_t bits = 0;
  int size = 0;
  MPI_Comm comm = MPI_COMM_WORLD, next = MPI_COMM_NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  for (;;) {
    for (int i = 0; reduce(comm, &bits) == MPI_SUCCESS; ++i) {
      if (bits == 0) refuse("a wrong result");
      if (i == 100) printf("ready %d %d\n", rank, getpid()), fflush(stdout);
    }
    const long long known = now();
    // The others may be in a call that does not need the dead rank.
    MPIX_Comm_revoke(comm);
    if (MPIX_Comm_shrink(comm, &next) != MPI_SUCCESS) refuse("MPIX_Comm_shrink");
    const long long shrunk = now();
    comm = next;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    // It fails if a rank has died of which the MPI library did not know before.
    if (reduce(comm, &bits) != MPI_SUCCESS) continue;
    const long long reduced = now();
    MPI_Comm_size(comm, &size);
    printf("recovered %d %d %llu %lld %lld %lld\n", rank, size, (unsigned long long)bits, known,
           shrunk, reduced);
    fflush(stdout);
  }
}
