// Times MPI collectives in the same way as `rondo bench` times Rondo's, so that figures compare.
//
// usage: mpi_bench COLLECTIVE BYTES...
//        mpi_bench version               prints the library's version
//   COLLECTIVE  allreduce broadcast reduce reducescatter allgather gather scatter alltoall barrier
//   BYTES       of one rank's vector (reducescatter: of its whole input; allgather, gather, scatter,
//               alltoall: of one block); a multiple of 4
// Rank 0 prints a line for each size: bytes, microseconds (every rank's median, then the slowest
// rank).
//
// Below 64 KiB (of all blocks) the clock is read around batches of calls, from 64 KiB on around each
// call, whose input is written anew. Ranks meet in a barrier on a second communicator before what is
// timed.
// Results are checked once per size. Rank r runs on core r modulo the cores it may use.
// Compiled with -DSHIM, and with ucc_shim.c or oneccl_shim.cc, it times the calls of UCC or oneCCL.
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SHIM // ucc_shim.c, oneccl_shim.cc
const char *shim_version(void);
void shim_open(void);
void shim_close(void);
void shim_call(int which, float *in, float *out, int count);
#endif

enum { kClockEachFrom = 64 << 10, kMostSamples = 200, kBatch = 50, kFewest = 5, kMostAlone = 20 };
enum { kPeriod = 10007 }; // period of the inputs' values, in elements
static const double kSeconds = 0.05, kSecondsAlone = 1.0; // time for the timed calls of one size

static int rank, ranks;

static void pin(void) {
  cpu_set_t may, one;
  sched_getaffinity(0, sizeof may, &may);
  int skip = rank % CPU_COUNT(&may);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &may) || skip-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

typedef struct {
  const char *name;
  int input_blocks, output_blocks; // blocks of `count` elements; 0: one for each rank
  int reduces;
} Collective;

static const Collective kCollectives[] = {
    {"allreduce", 1, 1, 1},     {"broadcast", 1, 1, 0}, {"reduce", 1, 1, 1},
    {"reducescatter", 0, 1, 1}, {"allgather", 1, 0, 0}, {"gather", 1, 0, 0},
    {"scatter", 0, 1, 0},       {"alltoall", 0, 0, 0},  {"barrier", 1, 1, 0},
};

static void call(const Collective *which, float *in, float *out, int count) {
#ifdef SHIM
  shim_call((int)(which - kCollectives), in, out, count);
#else
  const MPI_Comm comm = MPI_COMM_WORLD;
  switch (which - kCollectives) {
    case 0: MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, comm); break;
    case 1: MPI_Bcast(rank == 0 ? in : out, count, MPI_FLOAT, 0, comm); break;
    case 2: MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, comm); break;
    case 3: MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, comm); break;
    case 4: MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, comm); break;
    case 5: MPI_Gather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, 0, comm); break;
    case 6: MPI_Scatter(in, count, MPI_FLOAT, out, count, MPI_FLOAT, 0, comm); break;
    case 7: MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, comm); break;
    default: MPI_Barrier(comm); break;
  }
#endif
}

// Element i of rank `from`'s input.
static float value(int from, size_t i) { return (float)((i % kPeriod + (size_t)from) % 16); }

// Fills with memcpy, as `rondo bench` does: how the caches were filled changes times by up to 25%.
static void fill(float *in, size_t elements) {
  static float table[kPeriod];
  if (table[1] == 0)
    for (size_t i = 0; i < kPeriod; ++i) table[i] = value(rank, i);
  for (size_t i = 0; i < elements; i += kPeriod)
    memcpy(in + i, table, sizeof *in * (elements - i < kPeriod ? elements - i : kPeriod));
}

// Returns the number of wrong elements of the output; 0 if this rank has no output.
static long wrong(const Collective *which, const float *out, int count) {
  const int has_output = which->output_blocks == 1 || strcmp(which->name, "gather") || rank == 0;
  const int reduced_here = strcmp(which->name, "reduce") || rank == 0;
  if (!strcmp(which->name, "barrier") || !has_output || !reduced_here) return 0;
  if (!strcmp(which->name, "broadcast") && rank == 0) return 0;
  const int blocks = which->output_blocks ? 1 : ranks;
  long bad = 0;
  for (int b = 0; b < blocks; ++b)
    for (size_t i = 0; i < (size_t)count; ++i) {
      // An input with one block for each rank holds this rank's block at position `rank`.
      const size_t at = which->input_blocks ? i : i + (size_t)count * (size_t)rank;
      float due = 0;
      if (which->reduces)
        for (int r = 0; r < ranks; ++r) due += value(r, at);
      else
        due = value(which->output_blocks ? 0 : b, at);
      bad += out[(size_t)b * (size_t)count + i] != due;
    }
  return bad;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double agree(double mine, MPI_Comm control) {
  double slowest;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, control);
  return slowest;
}

static double median(const Collective *which, float *in, float *out, int count, size_t in_elements,
                     MPI_Comm control) {
  // Of all blocks, as `rondo bench` counts.
  const int blocks = which->input_blocks && which->output_blocks ? 1 : ranks;
  const size_t bytes = (size_t)count * 4 * (size_t)blocks;
  const int alone = bytes >= kClockEachFrom, batch = alone ? 1 : kBatch;
  fill(in, in_elements);
  MPI_Barrier(control);
  // The first calls allocate what later ones use again.
  const int warm_ups = !alone ? 300 : bytes < 1 << 20 ? 20 : 2;
  for (int i = 0; i < warm_ups; ++i) call(which, in, out, count);
  MPI_Barrier(control);
  double start = MPI_Wtime();
  for (int i = 0; i < 3; ++i) call(which, in, out, count);
  const double one = agree((MPI_Wtime() - start) / 3, control);
  double wanted = (alone ? kSecondsAlone : kSeconds) / (one * batch + 1e-9);
  const int most = alone ? kMostAlone : kMostSamples;
  const int samples = wanted < kFewest ? kFewest : wanted > most ? most : (int)wanted;
  double times[kMostSamples];
  MPI_Barrier(control);
  for (int s = 0; s < samples; ++s) {
    if (alone) {
      fill(in, in_elements);
      MPI_Barrier(control);
    }
    start = MPI_Wtime();
    for (int i = 0; i < batch; ++i) call(which, in, out, count);
    times[s] = (MPI_Wtime() - start) / batch;
  }
  qsort(times, (size_t)samples, sizeof *times, ascending);
  return agree(times[samples / 2], control) * 1e6;
}

// Allocates whole pages for blocks of `bytes`; `blocks` 0: one block for each rank.
static float *buffer(long long bytes, int blocks) {
  const size_t all = (size_t)bytes * (size_t)(blocks ? 1 : ranks);
  return aligned_alloc(4096, (all + 4095) / 4096 * 4096);
}

int main(int argc, char **argv) {
#ifdef SHIM // oneCCL requires this level
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
#else
  MPI_Init(&argc, &argv);
#endif
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc > 1 && !strcmp(argv[1], "version")) {
#ifdef SHIM
    printf("%s\n", shim_version());
#else
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    printf("%s\n", text);
#endif
    MPI_Finalize();
    return 0;
  }
  pin();
  const Collective *which = NULL;
  for (size_t i = 0; argc > 2 && i < sizeof kCollectives / sizeof *kCollectives; ++i)
    if (!strcmp(argv[1], kCollectives[i].name)) which = &kCollectives[i];
  if (!which) {
    if (rank == 0) fprintf(stderr, "usage: mpi_bench COLLECTIVE BYTES...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
#ifdef SHIM
  shim_open();
#endif
  MPI_Comm control;
  MPI_Comm_dup(MPI_COMM_WORLD, &control);
  const int split = !strcmp(which->name, "reducescatter") ? ranks : 1;
  long long most = 4;
  for (int a = 2; a < argc; ++a)
    if (atoll(argv[a]) > most) most = atoll(argv[a]);
  float *in = buffer(most, which->input_blocks), *out = buffer(most, which->output_blocks);
  if (!in || !out) MPI_Abort(MPI_COMM_WORLD, 3);
  for (int a = 2; a < argc; ++a) {
    const long long bytes = atoll(argv[a]);
    const int count = (int)(bytes / 4 / split) + (bytes / 4 / split == 0);
    const size_t in_elements = (size_t)count * (size_t)(which->input_blocks ? 1 : ranks);
    const size_t out_elements = (size_t)count * (size_t)(which->output_blocks ? 1 : ranks);
    memset(out, 0xee, out_elements * 4);
    const double time = median(which, in, out, count, in_elements, control);
    const double bad = agree((double)wrong(which, out, count), control);
    if (rank == 0) printf("%lld %.4f\n", bytes, time);
    if (bad > 0) {
      if (rank == 0) fprintf(stderr, "%s of %lld bytes: wrong results\n", which->name, bytes);
      MPI_Abort(MPI_COMM_WORLD, 4);
    }
  }
#ifdef SHIM
  shim_close();
#endif
  free(in);
  free(out);
  MPI_Comm_free(&control);
  MPI_Finalize();
  return 0;
}
