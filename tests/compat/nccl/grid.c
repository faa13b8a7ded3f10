/* Tests every collective x type x operator x count, in place and not, in groups and not, with ranks
 * that are processes, threads, or all in one thread. Compares results with exact arithmetic.
 * usage: grid processes|threads|one RANKS STRIDE   (every STRIDE-th case) */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "header.h"

enum Kind {
  ALLREDUCE,
  REDUCE,
  REDUCESCATTER,
  BROADCAST,
  BCAST,
  ALLGATHER,
  ALLTOALL,
  GATHER,
  SCATTER,
  SENDRECV,
  KINDS
};
enum { COUNTS = 3, MOST_COUNT = 1027 };
static const size_t counts[COUNTS] = {0, 1, MOST_COUNT};

typedef struct {
  enum Kind kind;
  ncclDataType_t type;
  ncclRedOp_t op;
  size_t count;
  int in_place, root;
} Case;

/* Exponent and mantissa bits of the narrow floats; 0 for other types. */
static int exponentOf(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16: return 5;
    case ncclBfloat16: return 8;
    case ncclFloat8e4m3: return 4;
    case ncclFloat8e5m2: return 5;
    default: return 0;
  }
}
static int mantissaOf(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16: return 10;
    case ncclBfloat16: return 7;
    case ncclFloat8e4m3: return 3;
    case ncclFloat8e5m2: return 2;
    default: return 0;
  }
}
static size_t bytesOf(ncclDataType_t type) {
  static const size_t bytes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return bytes[type];
}
static int isNarrow(ncclDataType_t type) { return exponentOf(type) != 0; }
static int isEight(ncclDataType_t type) { return type == ncclFloat8e4m3 || type == ncclFloat8e5m2; }
static int isFloating(ncclDataType_t type) {
  return isNarrow(type) || type == ncclFloat32 || type == ncclFloat64;
}

/* Stores a positive whole number that the type represents exactly. */
static void put(ncclDataType_t type, void* at, size_t i, double value) {
  if (isNarrow(type)) {
    int power = 0;
    const double fraction = 2 * frexp(value, &power) - 1;
    const int bias = (1 << (exponentOf(type) - 1)) - 1, bits = mantissaOf(type);
    const unsigned word =
        (unsigned)(power - 1 + bias) << bits | (unsigned)(fraction * (double)(1 << bits));
    if (bytesOf(type) == 2) ((uint16_t*)at)[i] = (uint16_t)word;
    else ((uint8_t*)at)[i] = (uint8_t)word;
  } else if (type == ncclFloat32) {
    ((float*)at)[i] = (float)value;
  } else if (type == ncclFloat64) {
    ((double*)at)[i] = value;
  } else {
    const uint64_t word = (uint64_t)value;
    memcpy((char*)at + i * bytesOf(type), &word, bytesOf(type));
  }
}
static double get(ncclDataType_t type, const void* at, size_t i) {
  if (isNarrow(type)) {
    const unsigned word = bytesOf(type) == 2 ? ((const uint16_t*)at)[i] : ((const uint8_t*)at)[i];
    const int bits = mantissaOf(type), bias = (1 << (exponentOf(type) - 1)) - 1;
    const int power = (int)(word >> bits);
    return ldexp((double)(1 << bits) + (double)(word & ((1U << bits) - 1)), power - bias - bits);
  }
  if (type == ncclFloat32) return ((const float*)at)[i];
  if (type == ncclFloat64) return ((const double*)at)[i];
  uint64_t word = 0;
  memcpy(&word, (const char*)at + i * bytesOf(type), bytesOf(type));
  return (double)word;
}

static int reduces(enum Kind kind) { return kind <= REDUCESCATTER; }
static int rooted(enum Kind kind) {
  return kind == REDUCE || kind == BROADCAST || kind == BCAST || kind == GATHER || kind == SCATTER;
}

/* Element i of a rank's input: small, so that sums and products are exact in every type. */
static double brings(const Case* of, int rank, size_t i) {
  if (!reduces(of->kind)) return (double)(((size_t)rank * 3 + i) % 4 + 1);
  return (double)((isEight(of->type) ? i : (size_t)rank + i) % 2 + 1);
}

static double reduced(const Case* of, int size, size_t i) {
  double sum = 0, product = 1, most = 0, least = 1e9;
  for (int rank = 0; rank < size; ++rank) {
    const double value = brings(of, rank, i);
    sum += value;
    product *= value;
    most = fmax(most, value);
    least = fmin(least, value);
  }
  switch ((int)of->op) {
    case ncclSum: return sum;
    case ncclProd: return product;
    case ncclMax: return most;
    case ncclMin: return least;
    default: return isFloating(of->type) ? sum / size : floor(sum / size);
  }
}

/* Number of elements of the buffers, and the expected element i of a rank's output; negative: not
 * defined. */
static size_t inputs(const Case* of, int size) {
  const int many = of->kind == REDUCESCATTER || of->kind == ALLTOALL || of->kind == SCATTER;
  return of->count * (size_t)(many ? size : 1);
}
static size_t outputs(const Case* of, int size) {
  const int many = of->kind == ALLGATHER || of->kind == ALLTOALL || of->kind == GATHER;
  return of->count * (size_t)(many ? size : 1);
}
static double expected(const Case* of, int rank, int size, size_t i) {
  const size_t count = of->count, block = i / (count ? count : 1), within = i - block * count;
  switch (of->kind) {
    case ALLREDUCE: return reduced(of, size, i);
    case REDUCE: return rank == of->root ? reduced(of, size, i) : -1;
    case REDUCESCATTER: return reduced(of, size, (size_t)rank * count + i);
    case BROADCAST:
    case BCAST: return brings(of, of->root, i);
    case ALLGATHER: return brings(of, (int)block, within);
    case ALLTOALL: return brings(of, (int)block, (size_t)rank * count + within);
    case GATHER: return rank == of->root ? brings(of, (int)block, within) : -1;
    case SCATTER: return brings(of, of->root, (size_t)rank * count + i);
    default: return brings(of, (rank + size - 1) % size, i);
  }
}

typedef struct {
  char *send, *recv;
  void* memory[2];
} Buffers;

/* Places and fills a rank's buffers. Guards after them detect writes beyond the end. */
static void place(const Case* of, int rank, int size, Buffers* at) {
  const size_t bytes = bytesOf(of->type), own = (size_t)rank * of->count * bytes;
  memset(at->memory[0], 0x5a, 8 * (MOST_COUNT * MOST_RANKS + 1));
  memset(at->memory[1], 0x5a, 8 * (MOST_COUNT * MOST_RANKS + 1));
  at->send = at->memory[0];
  at->recv = at->memory[1];
  if (of->in_place) {
    at->recv = at->send;
    if (of->kind == REDUCESCATTER) at->recv = at->send + own;
    if (of->kind == SCATTER && rank == of->root) at->recv = at->send + own;
    if (of->kind == SCATTER && rank != of->root) at->recv = at->memory[1];
    if (of->kind == ALLGATHER || (of->kind == GATHER && rank == of->root)) at->send += own;
    if (of->kind == GATHER && rank != of->root) at->recv = at->memory[1];
  }
  const int source = rank == of->root || (of->kind != BROADCAST && of->kind != BCAST);
  for (size_t i = 0; source && i < inputs(of, size); ++i)
    put(of->type, at->send, i, brings(of, rank, i));
}

static ncclResult_t issue(const Case* of, Buffers* at, int rank, int size, ncclComm_t comm) {
  const int root = of->root;
  void* const output = of->kind == REDUCE && rank != root && !of->in_place ? NULL : at->recv;
  switch (of->kind) {
    case ALLREDUCE: return ncclAllReduce(at->send, at->recv, of->count, of->type, of->op, comm, 0);
    case REDUCE: return ncclReduce(at->send, output, of->count, of->type, of->op, root, comm, 0);
    case REDUCESCATTER:
      return ncclReduceScatter(at->send, at->recv, of->count, of->type, of->op, comm, 0);
    case BROADCAST: return ncclBroadcast(at->send, at->recv, of->count, of->type, root, comm, 0);
    case BCAST:
      if (rank == root) at->recv = at->send;
      return ncclBcast(at->recv, of->count, of->type, root, comm, 0);
    case ALLGATHER: return ncclAllGather(at->send, at->recv, of->count, of->type, comm, 0);
    case ALLTOALL: return ncclAlltoAll(at->send, at->recv, of->count, of->type, comm, 0);
    case GATHER: return ncclGather(at->send, at->recv, of->count, of->type, root, comm, 0);
    case SCATTER: return ncclScatter(at->send, at->recv, of->count, of->type, root, comm, 0);
    default: break;
  }
  const ncclResult_t sent = ncclSend(at->send, of->count, of->type, (rank + 1) % size, comm, 0);
  if (sent != ncclSuccess) return sent;
  return ncclRecv(at->recv, of->count, of->type, (rank + size - 1) % size, comm, 0);
}

static void check(const Case* of, const Buffers* at, int rank, int size) {
  static const double bounds[ncclNumTypes] = {0, 0, 0, 0, 0, 0, 4e-3, 1e-6, 1e-14, 3e-2, 0.2, 0.3};
  const double bound = of->op == ncclAvg && reduces(of->kind) ? bounds[of->type] : 0;
  for (size_t i = 0; i < outputs(of, size); ++i) {
    const double want = expected(of, rank, size, i), got = get(of->type, at->recv, i);
    if (want < 0 || fabs(got - want) <= bound * want) continue;
    fprintf(stderr,
            "kind %d type %d op %d count %zu in place %d root %d: rank %d of %d, element "
            "%zu is %g and should be %g\n",
            of->kind, of->type, of->op, of->count, of->in_place, of->root, rank, size, i, got,
            want);
    _Exit(1);
  }
  const size_t end = outputs(of, size) * bytesOf(of->type);
  REQUIRE(of->in_place || expected(of, rank, size, 0) < 0 || at->recv[end] == 0x5a);
}

static void runCase(const Case* of, Held* held, Buffers* buffers, int grouped) {
  for (int i = 0; i < held->count; ++i) place(of, held->ranks[i], held->size, &buffers[i]);
  const int group = grouped || held->count > 1 || of->kind == SENDRECV;
  if (group) OK(ncclGroupStart());
  for (int i = 0; i < held->count; ++i)
    OK(issue(of, &buffers[i], held->ranks[i], held->size, held->comms[i]));
  if (group) OK(ncclGroupEnd());
  for (int i = 0; i < held->count; ++i) check(of, &buffers[i], held->ranks[i], held->size);
}

static int stride = 1;

static void runGrid(Held* held) {
  int number = held->size; /* each number of ranks runs a different share of the cases */
  Buffers buffers[MOST_RANKS];
  for (int i = 0; i < held->count; ++i)
    for (int m = 0; m < 2; ++m)
      OK(ncclMemAlloc(&buffers[i].memory[m], 8 * (MOST_COUNT * MOST_RANKS + 1)));
  for (int kind = 0; kind < KINDS; ++kind)
    for (int type = 0; type < ncclNumTypes; ++type)
      for (int op = 0; op < (reduces(kind) ? ncclNumOps : 1); ++op)
        for (int count = 0; count < COUNTS; ++count)
          for (int in_place = 0; in_place < 2; ++in_place) {
            if (in_place && (kind == ALLTOALL || kind == SENDRECV)) continue;
            if (number++ % stride != 0) continue;
            const int root = rooted(kind) ? (type + op + count) % held->size : 0;
            const Case one = {kind, type, op, counts[count], in_place, root};
            runCase(&one, held, buffers, (type + count) % 2);
          }
  for (int i = 0; i < held->count; ++i)
    for (int m = 0; m < 2; ++m) OK(ncclMemFree(buffers[i].memory[m]));
}

int main(int count, char** words) {
  REQUIRE(count == 4);
  stride = atoi(words[3]);
  const int failed = runRanks(words[1], atoi(words[2]), 1, runGrid);
  if (!failed) printf("ok\n");
  return failed;
}
