/* Makes an MPI library fail in a given moment. To be preloaded after an interposer, which finds
 * these functions in place of the MPI library's.
 *
 * environment: FAULT=unknown   MPIX_Comm_get_failed fails, so that no death is known
 *              FAULT=dup       after the second MPI_Comm_dup the last rank is dead, and rank 0 gets
 *                              the error that a rank may get of it; the others get none
 *              FAULT=reduce    the last rank dies when it enters MPI_Reduce of MPI_COMM_WORLD
 *              FAULT=init:FUNCTION:RANK
 *                              this rank dies in MPI_Init, when Rondo calls FUNCTION: bcast1 is the
 *                              first call of MPI_Bcast, agree2 the second of MPIX_Comm_agree, and
 *                              agree2+ is the end of that call. agree2+! is the same, but the other
 *                              ranks go on there after its death */
#define _GNU_SOURCE
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fault_is(const char* name) {
  const char* fault = getenv("FAULT");
  return fault && strcmp(fault, name) == 0;
}

/* `at` is a function's name, its number and perhaps "+". */
static void maybe_die(const char* at) {
  const char* fault = getenv("FAULT");
  char wanted[64];
  int rank = 0, first;
  if (!fault || strncmp(fault, "init:", 5) != 0) return;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(wanted, sizeof wanted, "init:%s!:", at);
  first = strncmp(fault, wanted, strlen(wanted)) == 0;
  snprintf(wanted, sizeof wanted, "init:%s%s:%d", at, first ? "!" : "", rank);
  if (strcmp(fault, wanted) == 0) {
    if (!first) usleep(100000); /* the others have come */
    raise(SIGKILL);
  }
  if (first) usleep(300000); /* it is dead */
}

static void count(const char* function, int* calls, const char* after) {
  char at[32];
  if (!*after) ++*calls;
  snprintf(at, sizeof at, "%s%d%s", function, *calls, after);
  maybe_die(at);
}

static int broadcasts, agreements;

int PMPI_Bcast(void* data, int count_, MPI_Datatype type, int root, MPI_Comm comm) {
  int (*real)(void*, int, MPI_Datatype, int, MPI_Comm) =
      (int (*)(void*, int, MPI_Datatype, int, MPI_Comm))dlsym(RTLD_NEXT, "PMPI_Bcast");
  count("bcast", &broadcasts, "");
  return real(data, count_, type, root, comm);
}

int PMPIX_Comm_agree(MPI_Comm comm, int* flag) {
  int (*real)(MPI_Comm, int*) = (int (*)(MPI_Comm, int*))dlsym(RTLD_NEXT, "PMPIX_Comm_agree");
  count("agree", &agreements, "");
  const int result = real(comm, flag);
  count("agree", &agreements, "+");
  return result;
}

int PMPI_Comm_dup(MPI_Comm from, MPI_Comm* comm) {
  static int calls = 0;
  int (*real)(MPI_Comm, MPI_Comm*) =
      (int (*)(MPI_Comm, MPI_Comm*))dlsym(RTLD_NEXT, "PMPI_Comm_dup");
  int rank = 0, size = 0;
  const int result = real(from, comm);
  if (result != MPI_SUCCESS || ++calls != 2 || !fault_is("dup")) return result;
  PMPI_Barrier(from); /* nobody is in the MPI library's function any more */
  PMPI_Comm_rank(from, &rank);
  PMPI_Comm_size(from, &size);
  if (rank == size - 1) {
    usleep(100000);
    raise(SIGKILL);
  }
  if (rank != 0) return MPI_SUCCESS;
  PMPI_Comm_free(comm);
  PMPI_Comm_call_errhandler(from, MPIX_ERR_PROC_FAILED);
  return MPIX_ERR_PROC_FAILED;
}
int MPI_Comm_dup(MPI_Comm from, MPI_Comm* comm) { return PMPI_Comm_dup(from, comm); }

int PMPI_Reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm) {
  int (*real)(const void*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm) = (int (*)(
      const void*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm))dlsym(RTLD_NEXT, "PMPI_Reduce");
  int rank = 0, size = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  if (fault_is("reduce") && comm == MPI_COMM_WORLD && rank == size - 1) {
    usleep(100000); /* the others wait in the MPI library */
    raise(SIGKILL);
  }
  return real(in, out, count, type, op, root, comm);
}

int PMPIX_Comm_get_failed(MPI_Comm comm, MPI_Group* failed) {
  int (*real)(MPI_Comm, MPI_Group*) =
      (int (*)(MPI_Comm, MPI_Group*))dlsym(RTLD_NEXT, "PMPIX_Comm_get_failed");
  return fault_is("unknown") ? MPI_ERR_INTERN : real(comm, failed);
}
