/* Calls every collective that an interposer takes over, blocking and as nonblocking calls, on three
 * communicators, and checks the results: with counts of int, and where MPI has the large-count
 * forms, by these on all ranks and on the odd ranks alone. It needs only C99 and MPI 3.0.
 *
 * Prints the MPI library's version and "every_collective: ok" on rank 0. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 37
#define MOST_RANKS 64

static MPI_Comm comm;
static int rank, size;
static int in[MOST_RANKS * COUNT * 2], out[MOST_RANKS * COUNT * 2];
static int counts[MOST_RANKS], places[MOST_RANKS], own[MOST_RANKS];
static int large; /* this rank calls the large-count forms */

static void check(int holds, const char* call, int form) {
  if (holds) return;
  fprintf(stderr, "FAILED: rank %d of %d: %s, %s\n", rank, size, call,
          form ? "nonblocking call" : "blocking");
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The value of rank `of` at index i. */
static int value(int of, int i) { return of * 1000 + i; }
/* The sum of the values at index i of ranks 0 to end - 1, and of all ranks. */
static int sum_before(int end, int i) { return end * (end - 1) / 2 * 1000 + end * i; }
static int sum(int i) { return sum_before(size, i); }

static void fill(void) {
  for (int i = 0; i < size * COUNT * 2; ++i) {
    in[i] = value(rank, i);
    out[i] = -1;
  }
}

/* Completes the request in another way for each form from 1 on. */
static void complete(int form, MPI_Request* request) {
  int done = 0;
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  int index = 0, some = 0;
  for (; form == 3 && !done;)
    MPI_Request_get_status_any(1, request, &index, &done, MPI_STATUS_IGNORE);
  for (; form == 4 && !done;) MPI_Request_get_status_all(1, request, &done, MPI_STATUSES_IGNORE);
  for (; form == 5 && some == 0;)
    MPI_Request_get_status_some(1, request, &some, &index, MPI_STATUSES_IGNORE);
#endif
  for (; form == 2 && !done;) MPI_Testall(1, request, &done, MPI_STATUSES_IGNORE);
  if (form != 2) MPI_Wait(request, MPI_STATUS_IGNORE);
}

/* Calls MPI_blocking, or the nonblocking form and a wait for it. */
#define CALL_PLAIN(form, blocking, immediate, ...) \
  do {                                             \
    fill();                                        \
    if (form) {                                    \
      MPI_Request request = MPI_REQUEST_NULL;      \
      MPI_##immediate(__VA_ARGS__, &request);      \
      complete(form, &request);                    \
    } else {                                       \
      MPI_##blocking(__VA_ARGS__);                 \
    }                                              \
  } while (0)

#if MPI_VERSION >= 4
#define FORMS 3
static MPI_Count large_counts[MOST_RANKS], large_own[MOST_RANKS];
static MPI_Aint large_places[MOST_RANKS];

static void enlarge(void) {
  for (int r = 0; r < size; ++r) {
    large_counts[r] = counts[r];
    large_own[r] = own[r];
    large_places[r] = places[r];
  }
}

/* In the arguments of a large-count form the names of tables mean the large ones. */
#define CALL(form, blocking, immediate, ...)                                    \
  do {                                                                          \
    if (large) {                                                                \
      enlarge();                                                                \
      const MPI_Count *counts = large_counts, *own = large_own;                 \
      const MPI_Aint* places = large_places;                                    \
      (void)counts, (void)own, (void)places;                                    \
      CALL_PLAIN(form, blocking##_c, immediate##_c, __VA_ARGS__);               \
    } else {                                                                    \
      CALL_PLAIN(form, blocking, immediate, __VA_ARGS__);                       \
    }                                                                           \
  } while (0)
#else
#define FORMS 1
#define CALL CALL_PLAIN
#endif

static void reduce(int form, int root) {
  CALL(form, Allreduce, Iallreduce, in, out, COUNT, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < COUNT; ++i) check(out[i] == sum(i), "Allreduce", form);
  CALL(form, Reduce, Ireduce, in, out, COUNT, MPI_INT, MPI_SUM, root, comm);
  for (int i = 0; i < COUNT; ++i) check(out[i] == (rank == root ? sum(i) : -1), "Reduce", form);
  CALL(form, Reduce_scatter_block, Ireduce_scatter_block, in, out, COUNT, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < COUNT; ++i)
    check(out[i] == sum(rank * COUNT + i), "Reduce_scatter_block", form);
  CALL(form, Scan, Iscan, in, out, COUNT, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < COUNT; ++i) check(out[i] == sum_before(rank + 1, i), "Scan", form);
  CALL(form, Exscan, Iexscan, in, out, COUNT, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < COUNT; ++i)
    check(out[i] == (rank == 0 ? -1 : sum_before(rank, i)), "Exscan", form);
  for (int r = 0; r < size; ++r) counts[r] = r + 1;
  CALL(form, Reduce_scatter, Ireduce_scatter, in, out, counts, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i <= rank; ++i)
    check(out[i] == sum(rank * (rank + 1) / 2 + i), "Reduce_scatter", form);
}

static void move(int form, int root) {
  CALL(form, Bcast, Ibcast, rank == root ? in : out, COUNT, MPI_INT, root, comm);
  for (int i = 0; rank != root && i < COUNT; ++i) check(out[i] == value(root, i), "Bcast", form);
  CALL(form, Scatter, Iscatter, in, COUNT, MPI_INT, out, COUNT, MPI_INT, root, comm);
  for (int i = 0; i < COUNT; ++i) check(out[i] == value(root, rank * COUNT + i), "Scatter", form);
  CALL(form, Gather, Igather, in, COUNT, MPI_INT, out, COUNT, MPI_INT, root, comm);
  for (int r = 0; rank == root && r < size; ++r)
    for (int i = 0; i < COUNT; ++i) check(out[r * COUNT + i] == value(r, i), "Gather", form);
  CALL(form, Allgather, Iallgather, in, COUNT, MPI_INT, out, COUNT, MPI_INT, comm);
  for (int r = 0; r < size; ++r)
    for (int i = 0; i < COUNT; ++i) check(out[r * COUNT + i] == value(r, i), "Allgather", form);
  CALL(form, Alltoall, Ialltoall, in, COUNT, MPI_INT, out, COUNT, MPI_INT, comm);
  for (int r = 0; r < size; ++r)
    for (int i = 0; i < COUNT; ++i)
      check(out[r * COUNT + i] == value(r, rank * COUNT + i), "Alltoall", form);
  CALL_PLAIN(form, Barrier, Ibarrier, comm);
}

/* Blocks of r + 1 elements with gaps between them. */
static void move_uneven(int form, int root) {
  for (int r = 0; r < size; ++r) {
    counts[r] = r + 1;
    places[r] = 2 * COUNT * r;
  }
  CALL(form, Scatterv, Iscatterv, in, counts, places, MPI_INT, out, rank + 1, MPI_INT, root, comm);
  for (int i = 0; i <= rank; ++i) check(out[i] == value(root, places[rank] + i), "Scatterv", form);
  CALL(form, Gatherv, Igatherv, in, rank + 1, MPI_INT, out, counts, places, MPI_INT, root, comm);
  for (int r = 0; rank == root && r < size; ++r)
    for (int i = 0; i <= r; ++i) check(out[places[r] + i] == value(r, i), "Gatherv", form);
  CALL(form, Allgatherv, Iallgatherv, in, rank + 1, MPI_INT, out, counts, places, MPI_INT, comm);
  for (int r = 0; r < size; ++r)
    for (int i = 0; i <= r; ++i) check(out[places[r] + i] == value(r, i), "Allgatherv", form);
  /* All ranks get one element from rank 0, two from rank 1 and so on. */
  for (int r = 0; r < size; ++r) own[r] = rank + 1;
  CALL(form, Alltoallv, Ialltoallv, in, own, places, MPI_INT, out, counts, places, MPI_INT, comm);
  for (int r = 0; r < size; ++r)
    for (int i = 0; i <= r; ++i)
      check(out[places[r] + i] == value(r, places[rank] + i), "Alltoallv", form);
}

/* Types and operators that a table of handles must have right. */
static void reduce_types(void) {
  double d = rank + 0.5, most = 0;
  MPI_Allreduce(&d, &most, 1, MPI_DOUBLE, MPI_MAX, comm);
  check(most == size - 0.5, "Allreduce of MPI_DOUBLE", 0);
  unsigned char byte = (unsigned char)(1 << (rank % 8)), all = 0;
  MPI_Allreduce(&byte, &all, 1, MPI_BYTE, MPI_BOR, comm);
  check(all == (size >= 8 ? 0xff : (1 << size) - 1), "Allreduce of MPI_BYTE", 0);
  float complex_sum[2] = {1, -2}, total[2] = {0, 0};
  MPI_Allreduce(complex_sum, total, 1, MPI_C_FLOAT_COMPLEX, MPI_SUM, comm);
  check(total[0] == (float)size && total[1] == -2.0f * (float)size, "Allreduce of complex", 0);
  struct {
    int value, at;
  } place = {-rank, rank}, least = {0, 0};
  MPI_Allreduce(&place, &least, 1, MPI_2INT, MPI_MINLOC, comm);
  check(least.at == size - 1, "Allreduce with MPI_MINLOC", 0);
  long own[2] = {rank, 1};
  MPI_Allreduce(MPI_IN_PLACE, own, 2, MPI_LONG, MPI_SUM, comm);
  check(own[0] == (long)size * (size - 1) / 2 && own[1] == size, "Allreduce in place", 0);
}

static void move_column(void) {
  MPI_Datatype column;
  fill();
  MPI_Type_vector(COUNT / 2, 1, 2, MPI_INT, &column);
  MPI_Type_commit(&column);
  MPI_Bcast(rank == 0 ? in : out, 1, column, 0, comm);
  for (int i = 0; rank != 0 && i < COUNT / 2; ++i)
    check(out[2 * i] == value(0, 2 * i) && out[2 * i + 1] == -1, "Bcast of a column", 0);
  MPI_Type_free(&column);
}

static void use(MPI_Comm with) {
  comm = with;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  for (int form = 0; form < 6 * FORMS; ++form) {
    const int root = form % size;
    large = form / 6 == 1 || (form / 6 == 2 && rank % 2 == 1);
    reduce(form % 6, root);
    move(form % 6, root);
    move_uneven(form % 6, root);
  }
  reduce_types();
  move_column();
}

int main(int argc, char** argv) {
  static char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0, provided = 0, world = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Get_library_version(version, &length);
  for (char* end = version; *end; ++end)
    if (*end == '\n') *end = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &world);
  if (world == 0) printf("library: %s\n", version);
  MPI_Comm copy = MPI_COMM_NULL, half = MPI_COMM_NULL;
  use(MPI_COMM_WORLD);
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  use(copy);
  MPI_Comm_free(&copy);
  MPI_Comm_split(MPI_COMM_WORLD, world % 2, -world, &half);
  use(half);
  MPI_Comm_free(&half);
  MPI_Finalize();
  if (world == 0) printf("every_collective: ok\n");
  return 0;
}
