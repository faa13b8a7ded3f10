/* Goes on after a revoke, or after the death of a rank, by MPI's User Level Failure Mitigation
 * (ULFM). It needs C99, and an MPI with ULFM.
 *
 * usage: ulfm revoke                           rank 1 revokes; the others wait in a collective
 *        ulfm kill VICTIM blocking|immediate   a rank kills itself while the others reduce
 *        ulfm fatal VICTIM                     the same; the error ends the job
 *        ulfm unknown failed|other             rank 2 kills itself; the class of the error is
 *                                              MPIX_ERR_PROC_FAILED or MPI_ERR_OTHER
 *        ulfm dup                              with ulfm_fault.c and FAULT=dup
 *        ulfm init VICTIM                      a rank has died in MPI_Init: FAULT=init:...
 *        ulfm finalize VICTIM                  a rank kills itself; the others have a nonblocking
 *                                              call in flight that they never complete
 *
 * The lowest living rank prints the MPI library's version and "ulfm: ok". */
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef MPIX_ERR_PROC_FAILED

#define COUNT 1000

static int rank, size;
static int handled, handled_class;

static int class_of(int code) {
  int result = MPI_SUCCESS;
  MPI_Error_class(code, &result);
  return result;
}

static void handle(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  ++handled;
  handled_class = class_of(*code);
}

static void check(int holds, const char* what, int value) {
  if (holds) return;
  fprintf(stderr, "FAILED: rank %d: %s: %d\n", rank, what, value);
  _exit(1);
}

/* Returns the error class. After success, checks the result: the sum of the ranks of the job in
 * `members`, a bit for each. */
static int reduce(MPI_Comm comm, int immediate, int members) {
  int in[COUNT], out[COUNT], sum = 0, result;
  for (int i = 0; i < COUNT; ++i) in[i] = rank + i;
  if (immediate) {
    MPI_Request request = MPI_REQUEST_NULL;
    result = MPI_Iallreduce(in, out, COUNT, MPI_INT, MPI_SUM, comm, &request);
    if (result == MPI_SUCCESS) result = MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    result = MPI_Allreduce(in, out, COUNT, MPI_INT, MPI_SUM, comm);
  }
  if (result != MPI_SUCCESS) return class_of(result);
  for (int i = 0; i < COUNT; ++i) {
    sum = 0;
    for (int r = 0; r < size; ++r) sum += (members >> r & 1) * (r + i);
    check(out[i] == sum, "a wrong sum", out[i]);
  }
  return MPI_SUCCESS;
}

static MPI_Comm duplicate(void) {
  MPI_Errhandler handler;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_errhandler(handle, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  MPI_Errhandler_free(&handler);
  return comm;
}

static int sole_failed_rank(MPI_Comm comm) {
  MPI_Group all, failed;
  int failures = 0, first = 0, result = -1;
  check(MPIX_Comm_failure_ack(comm) == MPI_SUCCESS, "failure_ack", 0);
  check(MPIX_Comm_failure_get_acked(comm, &failed) == MPI_SUCCESS, "get_acked", 0);
  MPI_Group_size(failed, &failures);
  check(failures == 1, "failed ranks that are acknowledged", failures);
  MPI_Comm_group(comm, &all);
  MPI_Group_translate_ranks(failed, 1, &first, all, &result);
  MPI_Group_free(&failed);
  MPI_Group_free(&all);
  return result;
}

/* Shrinks, and uses the new communicator and a duplicate of it. `failed`: whether this rank has had
 * the error that one rank at least must have had. */
static void go_on(MPI_Comm comm, int members, int failed) {
  int anywhere = 0, living = 0, mine = -1, agreed = 6 | 1 << (rank % 3 + 3), before = 0, all = ~0;
  MPI_Comm rest = MPI_COMM_NULL, copy = MPI_COMM_NULL;
  int result = MPIX_Comm_agree(comm, &agreed);
  check(result == MPI_SUCCESS || class_of(result) == MPIX_ERR_PROC_FAILED, "agree", result);
  for (int r = 0; r < size; ++r)
    if (members >> r & 1) all &= 6 | 1 << (r % 3 + 3);
  check(agreed == all, "agreed on other bits", agreed);
  result = MPIX_Comm_shrink(comm, &rest);
  check(result == MPI_SUCCESS, "shrink", result);
  MPI_Comm_set_errhandler(rest, MPI_ERRORS_ARE_FATAL);
  for (int r = 0; r < size; ++r) {
    living += members >> r & 1;
    if (r < rank) before += members >> r & 1;
  }
  MPI_Comm_size(rest, &result);
  MPI_Comm_rank(rest, &mine);
  check(result == living, "the new size", result);
  check(mine == before, "the new rank", mine);
  for (int i = 0; i < 20; ++i) reduce(rest, i % 2, members);
  MPI_Allreduce(&failed, &anywhere, 1, MPI_INT, MPI_MAX, rest);
  check(anywhere, "no rank has had the error", 0);
  MPI_Comm_dup(rest, &copy);
  for (int i = 0; i < 20; ++i) reduce(copy, i % 2, members);
  MPI_Comm_free(&copy);
  if (comm != MPI_COMM_WORLD) MPI_Comm_free(&comm);
  reduce(rest, 0, members);
  if (mine == 0) printf("ulfm: ok\n");
  fflush(stdout);
  MPI_Comm_free(&rest);
}

static void wake(void) {
  const int all = (1 << size) - 1;
  MPI_Comm comm = duplicate();
  reduce(comm, 0, all);
  if (rank == 1) {
    usleep(200000);
    check(MPIX_Comm_revoke(comm) == MPI_SUCCESS, "revoke", 0);
  }
  check(reduce(comm, rank == 2, all) == MPIX_ERR_REVOKED, "not revoked; handled", handled_class);
  check(handled == 1 && handled_class == MPIX_ERR_REVOKED, "errors handled", handled);
  go_on(comm, all, 1);
}

static void survive(int victim, int immediate) {
  const int all = (1 << size) - 1, others = all & ~(1 << victim);
  MPI_Comm comm = duplicate(), second = duplicate();
  int result = MPI_SUCCESS, failed = 0;
  for (int i = 0; result == MPI_SUCCESS; ++i) {
    if (rank == victim && i == 50) raise(SIGKILL);
    result = reduce(comm, immediate, all);
    failed = result == MPIX_ERR_PROC_FAILED;
  }
  /* Another rank may have had the error and revoked before. */
  check(failed || result == MPIX_ERR_REVOKED, "the class of the error", result);
  check(handled == 1 && handled_class == result, "errors handled", handled);
  if (failed) check(sole_failed_rank(comm) == victim, "another rank failed", 0);
  check(MPIX_Comm_revoke(comm) == MPI_SUCCESS, "revoke", 0);
  check(reduce(comm, 0, all) == MPIX_ERR_REVOKED, "a call after the revoke", handled_class);
  /* This one is not revoked, and still has the dead rank. */
  result = reduce(second, 0, all);
  check(result == MPIX_ERR_PROC_FAILED, "the class on a second communicator", result);
  MPI_Comm_free(&second);
  go_on(comm, others, failed);
}

/* The last rank dies while a communicator is made. Only rank 0 gets an error. */
static void divide(void) {
  MPI_Comm comm = duplicate(), second = MPI_COMM_NULL;
  const int result = class_of(MPI_Comm_dup(comm, &second));
  check(result == (rank == 0 ? MPIX_ERR_PROC_FAILED : MPI_SUCCESS), "the class of dup", result);
  check(handled == (rank == 0), "errors handled in dup", handled);
  go_on(comm, (1 << (size - 1)) - 1, rank == 0);
}

static int reduce_until_death(MPI_Comm comm, int victim) {
  int result = MPI_SUCCESS;
  for (int i = 0; result == MPI_SUCCESS; ++i) {
    if (rank == victim && i == 50) raise(SIGKILL);
    result = reduce(comm, 0, (1 << size) - 1);
  }
  return result;
}

static void end(int victim) {
  MPI_Comm comm = duplicate();
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  check(0, "the job goes on after a fatal error", reduce_until_death(comm, victim));
}

static void classify(int expected) {
  MPI_Comm comm = duplicate();
  const int result = reduce_until_death(comm, 2);
  /* Another rank may have had the error and revoked before. */
  check(result == expected || result == MPIX_ERR_REVOKED, "the class of the error", result);
  check(MPIX_Comm_revoke(comm) == MPI_SUCCESS, "revoke", 0);
  go_on(comm, ((1 << size) - 1) & ~(1 << 2), result == expected);
}

/* The victim died before MPI_Init returned. */
static void start_without(int victim) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check(MPIX_Comm_revoke(MPI_COMM_WORLD) == MPI_SUCCESS, "revoke", 0);
  go_on(MPI_COMM_WORLD, ((1 << size) - 1) & ~(1 << victim), 1);
}

static void leave_pending(int victim) {
  static int in[COUNT], out[COUNT];
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm comm = duplicate();
  reduce(comm, 0, (1 << size) - 1);
  reduce(comm, 1, (1 << size) - 1);
  if (rank == victim) raise(SIGKILL);
  MPI_Iallreduce(in, out, COUNT, MPI_INT, MPI_SUM, comm, &request);
  if (rank == (victim == 0)) printf("ulfm: ok\n"), fflush(stdout);
}

static void leave(int number) {
  (void)number;
  _exit(0);
}

int main(int argc, char** argv) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  alarm(60); /* ends the process */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_library_version(version, &length);
  if (rank == 0) printf("library: %s\n", version), fflush(stdout);
  alarm(30);
  const char* word = argc > 1 ? argv[1] : "";
  if (argc > 3 && strcmp(word, "kill") == 0) survive(atoi(argv[2]), argv[3][0] == 'i');
  else if (argc > 2 && strcmp(word, "fatal") == 0) end(atoi(argv[2]));
  else if (argc > 2 && strcmp(word, "unknown") == 0)
    classify(argv[2][0] == 'f' ? MPIX_ERR_PROC_FAILED : MPI_ERR_OTHER);
  else if (strcmp(word, "dup") == 0) divide();
  else if (argc > 2 && strcmp(word, "init") == 0) start_without(atoi(argv[2]));
  else if (argc > 2 && strcmp(word, "finalize") == 0) leave_pending(atoi(argv[2]));
  else wake();
  /* Open MPI 5.0's MPI_Finalize sometimes waits for the dead rank for ever. */
  signal(SIGALRM, leave);
  alarm(5);
  MPI_Finalize();
  return 0;
}

#else

int main(void) {
  printf("ulfm: this MPI does not have it\n");
  return 0;
}

#endif
