/* Tests behaviour that programs rely on besides results, in one function each: communicators,
 * groups, operators, memory and refused calls. usage: behaviours processes|threads RANKS [NAME] */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "header.h"

static void questions(Held* held) {
  int version = 0, number = -5;
  OK(ncclGetVersion(&version));
  REQUIRE(version >= 22809);
  OK(pncclGetVersion(&version));
  OK(ncclCommCount(held->comms[0], &number));
  REQUIRE(number == held->size);
  OK(ncclCommUserRank(held->comms[0], &number));
  REQUIRE(number == held->ranks[0]);
  OK(ncclCommCuDevice(held->comms[0], &number));
  REQUIRE(number == -1);
  for (int result = 0; result <= ncclNumResults; ++result)
    REQUIRE(strlen(ncclGetErrorString((ncclResult_t)result)) > 0);
  REQUIRE(ncclGetLastError(NULL) && ncclGetLastError(held->comms[0]));
  REQUIRE(settled(held->comms[0]) == ncclSuccess);
  REQUIRE(ncclGetVersion(NULL) == ncclInvalidArgument && says("ncclGetVersion"));
}

static void splits(Held* held) {
  const int rank = held->ranks[0], size = held->size;
  ncclComm_t part = NULL;
  /* The last rank stays out. The others get the reverse order, except for the first two, which
   * have equal keys. */
  const int out = rank == size - 1 && size > 1, inside = size > 1 ? size - 1 : 1;
  const int key = rank == 0 ? -1 : -rank;
  OK(ncclCommSplit(held->comms[0], out ? -1 : 3, key, &part, NULL));
  if (out) {
    REQUIRE(part == NULL);
    return;
  }
  int own = -1, order[MOST_RANKS];
  OK(ncclCommUserRank(part, &own));
  REQUIRE(sumOf(part) == inside);
  OK(ncclAllGather(&rank, order, 1, ncclInt, part, 0));
  REQUIRE(order[own] == rank);
  for (int i = 1; i < inside; ++i) {
    const int before = order[i - 1], here = order[i];
    REQUIRE((before == 0 ? -1 : -before) <= (here == 0 ? -1 : -here));
    REQUIRE(before + here != 1 || before < here);
  }
  /* Several splits in one group are made in the order of the calls. */
  ncclComm_t both[2] = {NULL, NULL};
  OK(ncclGroupStart());
  OK(ncclCommSplit(part, 0, 0, &both[0], NULL));
  OK(ncclCommSplit(part, own % 2, 0, &both[1], NULL));
  OK(ncclGroupEnd());
  REQUIRE(sumOf(both[0]) == inside);
  REQUIRE(sumOf(both[1]) == (inside + 1 - own % 2) / 2);
  for (int i = 0; i < 2; ++i) OK(ncclCommDestroy(both[i]));
  OK(ncclCommDestroy(part));
}

static void groups(Held* held) {
  const ncclComm_t comm = held->comms[0];
  ncclComm_t other = NULL;
  int one = 1, first = -1, second = -1;
  OK(ncclCommSplit(comm, 0, 0, &other, NULL));
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  OK(ncclAllReduce(&one, &first, 1, ncclInt, ncclSum, comm, 0));
  OK(ncclAllReduce(&one, &second, 1, ncclInt, ncclSum, other, 0));
  OK(ncclGroupEnd());
  REQUIRE(first == -1 && second == -1); /* no call runs before the outermost group ends */
  OK(ncclGroupEnd());
  REQUIRE(first == held->size && second == held->size);
  /* An error of one call is the group's result, and no call of the group runs. */
  first = -1;
  OK(ncclGroupStart());
  OK(ncclAllReduce(&one, &first, 1, ncclInt, ncclSum, comm, 0));
  REQUIRE(ncclBroadcast(&one, &one, 1, ncclInt, 99, comm, 0) == ncclInvalidArgument);
  REQUIRE(ncclGroupEnd() == ncclInvalidArgument && says("root 99") && first == -1);
  REQUIRE(ncclGroupEnd() == ncclInvalidUsage && says("ncclGroupStart"));
  /* The error of a query is not the group's. */
  int none = 0;
  OK(ncclGroupStart());
  OK(ncclAllReduce(&one, &first, 1, ncclInt, ncclSum, comm, 0));
  REQUIRE(ncclCommCount(NULL, &none) == ncclInvalidArgument);
  REQUIRE(ncclMemFree(&none) == ncclInvalidArgument);
  OK(ncclGroupEnd());
  REQUIRE(first == held->size);
  first = -1;
  /* ncclGroupSimulateEnd() runs no call either. */
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  OK(ncclGroupStart());
  OK(ncclAllReduce(&one, &first, 1, ncclInt, ncclSum, comm, 0));
  OK(ncclGroupSimulateEnd(&info));
  REQUIRE(first == -1 && info.estimatedTime >= 0 && (held->size == 1 || info.estimatedTime > 0));
  info.magic = 1;
  OK(ncclGroupStart());
  REQUIRE(ncclGroupSimulateEnd(&info) == ncclInvalidArgument);
  REQUIRE(sumOf(comm) == held->size);
  OK(ncclCommDestroy(other));
}

static void* endInGroup(void* at) {
  Held* const held = at;
  static __thread int one = 1;
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  OK(ncclAllReduce(&one, &held->ranks[1], 1, ncclInt, ncclSum, held->comms[0], 0));
  REQUIRE(ncclBroadcast(&one, &one, 1, ncclInt, 99, held->comms[0], 0) == ncclInvalidArgument);
  return NULL;
}

/* The calls of a thread that ends inside a group are dropped. */
static void endsInGroup(Held* held) {
  pthread_t thread;
  Held others = *held;
  others.ranks[1] = -1;
  REQUIRE(pthread_create(&thread, NULL, endInGroup, &others) == 0);
  pthread_join(thread, NULL);
  REQUIRE(others.ranks[1] == -1);
  REQUIRE(sumOf(held->comms[0]) == held->size);
}

/* Each communicator of a group has the state of its own calls. */
static void groupsOfSeveral(Held* held) {
  if (held->size == 1) return;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comms[2] = {NULL, NULL};
  for (int i = 0; i < 2; ++i) {
    const ncclResult_t made = ncclCommSplit(held->comms[0], 0, 0, &comms[i], &config);
    finished(made, comms[i]);
  }
  int one = 1, sum = 0, got = 0;
  ncclResult_t state = ncclSuccess;
  OK(ncclGroupStart());
  OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comms[0], 0));
  if (held->ranks[0] == 0) OK(ncclRecv(&got, 1, ncclInt, 1, comms[1], 0));
  const ncclResult_t called = ncclGroupEnd();
  finished(called, comms[0]);
  REQUIRE(sum == held->size);
  if (held->ranks[0] == 0) {
    OK(ncclCommGetAsyncError(comms[1], &state));
    REQUIRE(state == ncclInProgress); /* rank 1 sends when it has this rank's message */
    OK(ncclCommDestroy(comms[0]));
    OK(ncclSend(&one, 1, ncclInt, 1, held->comms[0], 0));
    REQUIRE(settled(comms[1]) == ncclSuccess && got == 1);
  } else {
    OK(ncclCommDestroy(comms[0]));
    if (held->ranks[0] == 1) {
      OK(ncclRecv(&got, 1, ncclInt, 0, held->comms[0], 0));
      finished(ncclSend(&one, 1, ncclInt, 0, comms[1], 0), comms[1]);
    }
  }
  OK(ncclCommDestroy(comms[1]));
}

/* As nccl-tests does, though the buffer's content is undefined afterwards. */
static void allToAllInPlace(Held* held) {
  const ncclComm_t comm = held->comms[0];
  int blocks[2 * MOST_RANKS] = {0};
  OK(ncclAlltoAll(blocks, blocks, 2, ncclInt, comm, 0));
  REQUIRE(sumOf(comm) == held->size);
  OK(ncclGroupStart());
  OK(ncclAlltoAll(blocks, blocks, 1, ncclInt, comm, 0));
  OK(ncclGroupEnd());
  REQUIRE(sumOf(comm) == held->size);
}

static void operators(Held* held) {
  const ncclComm_t comm = held->comms[0];
  float factor = 0.5F, value = 4, sum = 0;
  ncclRedOp_t op, later;
  OK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, comm));
  OK(ncclRedOpCreatePreMulSum(&later, &factor, ncclFloat, ncclScalarDevice, comm));
  factor = 0.25F; /* the first operator has already read the factor, the second has not */
  OK(ncclAllReduce(&value, &sum, 1, ncclFloat, later, comm, 0));
  REQUIRE(sum == 1.0F * (float)held->size);
  OK(ncclGroupStart());
  OK(ncclAllReduce(&value, &sum, 1, ncclFloat, op, comm, 0));
  OK(ncclRedOpDestroy(op, comm)); /* allowed before the group ends */
  OK(ncclGroupEnd());
  REQUIRE(sum == 2.0F * (float)held->size);
  REQUIRE(ncclAllReduce(&value, &sum, 1, ncclFloat, op, comm, 0) == ncclInvalidArgument);
  REQUIRE(ncclRedOpDestroy(op, comm) == ncclInvalidArgument);
  REQUIRE(ncclAllReduce(&value, &sum, 1, ncclDouble, later, comm, 0) == ncclInvalidArgument);
  REQUIRE(says("made for float"));
  ncclComm_t other = NULL;
  OK(ncclCommSplit(comm, 0, 0, &other, NULL));
  REQUIRE(ncclAllReduce(&value, &sum, 1, ncclFloat, later, other, 0) == ncclInvalidArgument);
  OK(ncclRedOpDestroy(later, comm));
  long long three = 3, two = 2, whole = 0, huge = 1LL << 60;
  huge += 1;
  OK(ncclRedOpCreatePreMulSum(&op, &three, ncclInt64, ncclScalarHostImmediate, other));
  OK(ncclAllReduce(&two, &whole, 1, ncclInt64, op, other, 0));
  REQUIRE(whole == 6LL * held->size);
  REQUIRE(ncclRedOpCreatePreMulSum(&op, &huge, ncclInt64, ncclScalarHostImmediate, other) ==
          ncclInvalidArgument);
  long long most = 1LL << 53, more = most + 1, less = -most - 1;
  OK(ncclRedOpCreatePreMulSum(&op, &most, ncclInt64, ncclScalarHostImmediate, other));
  REQUIRE(ncclRedOpCreatePreMulSum(&op, &more, ncclInt64, ncclScalarHostImmediate, other) ==
          ncclInvalidArgument);
  REQUIRE(ncclRedOpCreatePreMulSum(&op, &more, ncclUint64, ncclScalarHostImmediate, other) ==
          ncclInvalidArgument);
  REQUIRE(ncclRedOpCreatePreMulSum(&op, &less, ncclInt64, ncclScalarHostImmediate, other) ==
          ncclInvalidArgument);
  /* Numbers of destroyed operators are used again. */
  for (int i = 0; i < 1000; ++i) {
    OK(ncclRedOpCreatePreMulSum(&op, &three, ncclInt64, ncclScalarHostImmediate, other));
    REQUIRE((int)op < 500);
    OK(ncclRedOpDestroy(op, other));
  }
  const unsigned short half = 0x3800, bhalf = 0x3f00;   /* 0.5 */
  const unsigned char quarter4 = 0x28, quarter5 = 0x34; /* 0.25 */
  OK(ncclRedOpCreatePreMulSum(&op, (void*)&half, ncclFloat16, ncclScalarHostImmediate, other));
  unsigned short in = 0x4400, out = 0; /* 4 */
  OK(ncclReduceScatter(&in, &out, held->size == 1, ncclFloat16, op, other, 0));
  REQUIRE(held->size > 1 || out == 0x4000);
  OK(ncclRedOpCreatePreMulSum(&op, (void*)&bhalf, ncclBfloat16, ncclScalarHostImmediate, other));
  OK(ncclRedOpCreatePreMulSum(&op, (void*)&quarter4, ncclFloat8e4m3, ncclScalarHostImmediate,
                              other));
  OK(ncclRedOpCreatePreMulSum(&op, (void*)&quarter5, ncclFloat8e5m2, ncclScalarHostImmediate,
                              other));
  OK(ncclCommDestroy(other));
}

static void memory(Held* held) {
  const ncclComm_t comm = held->comms[0];
  enum { BYTES = 1 << 18 };
  char *send = NULL, *recv = NULL, *own = malloc(BYTES + 100);
  void* handles[2];
  ncclWindow_t window = NULL;
  OK(ncclMemAlloc((void**)&send, BYTES));
  OK(ncclMemAlloc((void**)&recv, BYTES));
  OK(ncclCommRegister(comm, own + 3, BYTES, &handles[0])); /* not aligned to pages */
  OK(ncclCommRegister(comm, send, BYTES, &handles[1]));    /* already registered */
  OK(ncclCommWindowRegister(comm, recv, BYTES, &window, 1));
  REQUIRE(handles[0] && handles[1] && window);
  memset(own, 1, BYTES + 100);
  OK(ncclAllReduce(own + 3, recv, BYTES, ncclInt8, ncclSum, comm, 0));
  for (int i = 0; i < BYTES; ++i) REQUIRE(recv[i] == held->size);
  OK(ncclCommWindowDeregister(comm, window));
  for (int i = 0; i < 2; ++i) OK(ncclCommDeregister(comm, handles[i]));
  REQUIRE(ncclCommDeregister(comm, handles[0]) == ncclInvalidArgument);
  REQUIRE(ncclCommRegister(comm, NULL, 8, &handles[0]) == ncclInvalidArgument);
  for (int i = 0; i < BYTES + 100; ++i) REQUIRE(own[i] == 1);
  OK(ncclMemFree(send));
  OK(ncclMemFree(recv));
  REQUIRE(ncclMemFree(recv) == ncclInvalidArgument);
  OK(ncclMemFree(NULL));
  free(own);
}

static void refusals(Held* held) {
  const ncclComm_t comm = held->comms[0];
  int a[2 * MOST_RANKS] = {0}, b[2 * MOST_RANKS] = {0}, number = 0;
  const ncclResult_t bad = ncclInvalidArgument;
  REQUIRE(ncclAllReduce(a, b, 1, ncclInt, ncclSum, NULL, 0) == bad && says("null"));
  REQUIRE(ncclAllReduce(a, b, 1, ncclInt, ncclSum, (ncclComm_t)a, 0) == bad && says("no commun"));
  REQUIRE(ncclAllReduce(a, b, 1, (ncclDataType_t)12, ncclSum, comm, 0) == bad &&
          says("data type 12"));
  REQUIRE(ncclAllReduce(a, b, 1, (ncclDataType_t)-1, ncclSum, comm, 0) == bad);
  REQUIRE(ncclAllReduce(a, b, 1, ncclInt, (ncclRedOp_t)5, comm, 0) == bad && says("operator 5"));
  REQUIRE(ncclAllReduce(a, b, 1, ncclInt, (ncclRedOp_t)-1, comm, 0) == bad);
  REQUIRE(ncclAllReduce(NULL, b, 1, ncclInt, ncclSum, comm, 0) == bad && says("input is null"));
  REQUIRE(ncclAllReduce(a, NULL, 1, ncclInt, ncclSum, comm, 0) == bad && says("output is null"));
  REQUIRE(ncclAllReduce(a, b, ~(size_t)0, ncclInt, ncclSum, comm, 0) == bad && says("count"));
  REQUIRE(ncclBroadcast(a, b, 1, ncclInt, held->size, comm, 0) == bad && says("root"));
  REQUIRE(ncclReduce(a, b, 1, ncclInt, ncclSum, -1, comm, 0) == bad);
  REQUIRE(ncclSend(a, 1, ncclInt, held->size, comm, 0) == bad && says("peer"));
  REQUIRE(ncclRecv(a, 1, ncclInt, -1, comm, 0) == bad);
  REQUIRE(ncclCommCount(comm, NULL) == bad);
  REQUIRE(ncclCommGetAsyncError(comm, NULL) == bad);
  REQUIRE(ncclCommUserRank(NULL, &number) == bad);
  /* Without a driver, calls cannot wait for a stream. */
  REQUIRE(ncclAllReduce(a, b, 1, ncclInt, ncclSum, comm, (cudaStream_t)a) == ncclInvalidUsage);
  REQUIRE(says("stream"));
  ncclComm_t none = comm;
  ncclUniqueId id;
  memset(&id, 7, sizeof id);
  REQUIRE(ncclCommInitRank(&none, 1, id, 0) == bad && says("unique id") && none == NULL);
  REQUIRE(ncclCommInitRank(NULL, 1, id, 0) == bad);
  OK(ncclGetUniqueId(&id));
  REQUIRE(ncclCommInitRank(&none, 2, id, 2) == bad && says("rank 2"));
  REQUIRE(ncclCommInitRank(&none, 0, id, 0) == bad);
  REQUIRE(ncclCommInitAll(&none, 0, NULL) == bad);
  const int device = -3;
  REQUIRE(ncclCommInitAll(&none, 1, &device) == bad);
  REQUIRE(ncclCommInitRankScalable(&none, 1, 0, 2, &id, NULL) == bad && says("2 ids"));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  REQUIRE(ncclCommInitRankConfig(&none, 1, id, 0, &config) == bad && says("CONFIG_INITIALIZER"));
  config.magic = 0xcafebeef;
  config.blocking = 7;
  REQUIRE(ncclCommInitRankConfig(&none, 1, id, 0, &config) == bad && says("blocking is 7"));
  REQUIRE(ncclCommSplit(comm, -7, 0, &none, NULL) == bad && says("color"));
  REQUIRE(ncclCommShrink(comm, NULL, 0, &none, NULL, 0) == bad);
  REQUIRE(ncclCommShrink(comm, (int*)&held->ranks[0], 1, &none, NULL, 0) == bad);
  REQUIRE(ncclCommRevoke(comm, 3) == bad);
  REQUIRE(sumOf(comm) == held->size); /* the communicator still works */
}

static void ends(Held* held) {
  ncclComm_t part = NULL;
  ncclResult_t state;
  int number;
  OK(ncclCommSplit(held->comms[0], 0, 0, &part, NULL));
  OK(ncclCommFinalize(part));
  REQUIRE(settled(part) == ncclSuccess);
  REQUIRE(ncclAllReduce(&number, &number, 1, ncclInt, ncclSum, part, 0) == ncclInvalidUsage);
  REQUIRE(ncclCommFinalize(part) == ncclInvalidArgument);
  OK(ncclCommDestroy(part));
  REQUIRE(ncclCommDestroy(part) == ncclInvalidArgument && says("destroyed"));
  REQUIRE(ncclCommCount(part, &number) == ncclInvalidArgument);
  REQUIRE(ncclCommGetAsyncError(part, &state) == ncclInvalidArgument);
  REQUIRE(ncclAllReduce(&number, &number, 1, ncclInt, ncclSum, part, 0) == ncclInvalidArgument);
  OK(ncclCommDestroy(NULL));
  OK(ncclCommAbort(NULL));
  OK(ncclCommFinalize(NULL));
  OK(ncclCommRevoke(NULL, 0));
  OK(ncclCommDeregister(held->comms[0], NULL));
  OK(ncclCommWindowDeregister(held->comms[0], NULL));
  REQUIRE(ncclGetLastError(part) != NULL);
}

static void notBlocking(Held* held) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.size = 20; /* an older client's size; fields after it take their defaults */
  ncclComm_t comm = NULL, part = NULL;
  const ncclUniqueId id = exchangedId(held->ranks[0], held->size);
  const ncclResult_t made = ncclCommInitRankConfig(&comm, held->size, id, held->ranks[0], &config);
  REQUIRE(comm != NULL);
  finished(made, comm);
  enum { COUNT = 100000 };
  static __thread int ones[COUNT], sums[COUNT];
  for (int i = 0; i < COUNT; ++i) ones[i] = 1;
  finished(ncclAllReduce(ones, sums, COUNT, ncclInt, ncclSum, comm, 0), comm);
  REQUIRE(sums[0] == held->size && sums[COUNT - 1] == held->size);
  OK(ncclGroupStart());
  OK(ncclAllReduce(ones, sums, COUNT, ncclInt, ncclMax, comm, 0));
  OK(ncclAllReduce(ones, sums, 1, ncclInt, ncclSum, comm, 0));
  finished(ncclGroupEnd(), comm);
  REQUIRE(sums[0] == held->size && sums[COUNT - 1] == 1);
  const ncclResult_t split = ncclCommSplit(comm, 0, -held->ranks[0], &part, NULL);
  REQUIRE(split == ncclInProgress || split == ncclSuccess);
  finished(split, part);
  finished(ncclCommFinalize(part), part);
  OK(ncclCommDestroy(part));
  OK(ncclCommDestroy(comm));
}

/* Programs poll the parent until a split is complete. Then the members have a communicator, and
 * the other ranks have none. */
static void notBlockingSplits(Held* held) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = NULL;
  const ncclUniqueId id = exchangedId(held->ranks[0], held->size);
  const ncclResult_t made = ncclCommInitRankConfig(&comm, held->size, id, held->ranks[0], &config);
  finished(made, comm);
  const int last = held->size - 1, out = held->ranks[0] == last, inside = held->size - 1;
  for (int turn = 0; turn < 6; ++turn) {
    const int grouped = turn % 2;
    ncclComm_t part = (ncclComm_t)&config;
    ncclConfig_t waits = NCCL_CONFIG_INITIALIZER;
    waits.blocking = turn >= 4;
    if (grouped) OK(ncclGroupStart());
    const ncclResult_t split =
        ncclCommSplit(comm, out ? -1 : 3, 0, &part, turn < 2 ? NULL : &waits);
    REQUIRE(split == ncclInProgress || split == ncclSuccess);
    if (out) REQUIRE(part == NULL);
    finished(grouped ? ncclGroupEnd() : split, comm);
    REQUIRE((part == NULL) == out);
    if (out) continue;
    int count = 0;
    OK(ncclCommCount(part, &count)); /* the communicator can be used */
    REQUIRE(count == inside);
    finished(ncclCommFinalize(part), part);
    OK(ncclCommDestroy(part));
  }
  /* A child whose configuration does not set its mode is blocking, as any communicator. */
  ncclConfig_t unset = NCCL_CONFIG_INITIALIZER;
  unset.splitShare = 1;
  ncclComm_t whole = NULL;
  finished(ncclCommSplit(comm, 0, 0, &whole, &unset), comm);
  int one = 1, sum = 0;
  REQUIRE(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, whole, 0) == ncclSuccess);
  REQUIRE(sum == held->size);
  OK(ncclCommDestroy(whole));
  /* The parent is in progress until the other ranks have called the split. */
  if (held->size > 1) {
    static __thread int go, none;
    ncclComm_t part = NULL;
    ncclResult_t state = ncclSuccess;
    if (held->ranks[0] == 0) {
      ncclResult_t split = ncclCommSplit(comm, -1, 0, &part, NULL);
      REQUIRE(split == ncclInProgress);
      usleep(20000);
      OK(ncclCommGetAsyncError(comm, &state));
      REQUIRE(state == ncclInProgress && part == NULL);
      for (int other = 1; other < held->size; ++other)
        REQUIRE(ncclSend(&none, 1, ncclInt, other, held->comms[0], 0) == ncclSuccess);
    } else {
      OK(ncclRecv(&go, 1, ncclInt, 0, held->comms[0], 0));
      REQUIRE(ncclCommSplit(comm, 0, 0, &part, NULL) == ncclInProgress);
    }
    REQUIRE(settled(comm) == ncclSuccess);
    if (part) OK(ncclCommDestroy(part));
  }
  OK(ncclCommDestroy(comm));
}

/* Fields that a client's version of NCCL does not have are not read from its configuration. */
static void configurations(Held* held) {
  (void)held;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  config.cgaClusterSize = 99;
  REQUIRE(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInvalidArgument);
  REQUIRE(says("cgaClusterSize is 99"));
  config.version = 21699; /* the field is new in 2.17 */
  OK(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  OK(ncclCommDestroy(comm));
  OK(ncclGetUniqueId(&id));
  config.version = 22809;
  config.size = (size_t)((char*)&config.cgaClusterSize - (char*)&config);
  OK(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  OK(ncclCommDestroy(comm));
}

/* A message of zero bytes is a message: the receiver waits for it. */
static void emptyMessages(Held* held) {
  if (held->size == 1) return;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = NULL;
  ncclResult_t made = ncclCommSplit(held->comms[0], 0, 0, &comm, &config), state;
  finished(made, comm);
  int go = 0;
  if (held->ranks[0] == 0) {
    made = ncclRecv(&go, 1, ncclInt, 1, comm, 0);
    finished(made, comm);
    REQUIRE(go == 7);
    made = ncclSend(NULL, 0, ncclInt, 1, comm, 0);
    finished(made, comm);
  } else if (held->ranks[0] == 1) {
    go = 7;
    REQUIRE(ncclRecv(NULL, 0, ncclInt, 0, comm, 0) == ncclInProgress);
    for (int i = 0; i < 20; ++i, usleep(1000)) {
      OK(ncclCommGetAsyncError(comm, &state));
      REQUIRE(state == ncclInProgress); /* rank 0 has sent nothing yet */
    }
    made = ncclSend(&go, 1, ncclInt, 0, comm, 0);
    finished(made, comm);
  }
  OK(ncclCommDestroy(comm));
}

static void scalable(Held* held) {
  ncclUniqueId ids[2];
  for (int i = 0; i < 2; ++i) ids[i] = exchangedId(held->ranks[0], held->size);
  ncclComm_t comm = NULL;
  OK(ncclCommInitRankScalable(&comm, held->size, held->ranks[0], held->size > 1 ? 2 : 1, ids,
                              NULL));
  REQUIRE(sumOf(comm) == held->size);
  OK(ncclCommDestroy(comm));
}

static void shrinks(Held* held) {
  const int last = held->size - 1;
  if (held->size == 1) return;
  /* NCCL_SHRINK_ABORT with a list that is refused aborts nothing. */
  ncclComm_t none = NULL;
  const int beyond = 99;
  REQUIRE(ncclCommShrink(held->comms[0], (int*)&beyond, 1, &none, NULL, 1) == ncclInvalidArgument);
  REQUIRE(ncclCommShrink(held->comms[0], &held->ranks[0], 1, &none, NULL, 1) ==
          ncclInvalidArgument);
  REQUIRE(sumOf(held->comms[0]) == held->size);
  if (held->ranks[0] == last) return; /* the last rank takes no part */
  ncclComm_t part = NULL;
  OK(ncclCommShrink(held->comms[0], (int*)&last, 1, &part, NULL, 0));
  REQUIRE(sumOf(part) == held->size - 1);
  OK(ncclCommDestroy(part));
}

static void revokes(Held* held) {
  ncclComm_t whole = NULL, part = NULL;
  int one = 1, sum;
  OK(ncclCommSplit(held->comms[0], 0, 0, &whole, NULL));
  REQUIRE(sumOf(whole) == held->size);
  REQUIRE(sumOf(held->comms[0]) == held->size); /* after it, no call is in flight */
  OK(ncclCommRevoke(whole, 0));
  REQUIRE(settled(whole) == ncclSuccess);
  REQUIRE(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, whole, 0) == ncclRemoteError);
  REQUIRE(ncclCommFinalize(whole) == ncclInvalidUsage);
  OK(ncclCommSplit(whole, 0, 0, &part, NULL));
  REQUIRE(sumOf(part) == held->size);
  OK(ncclCommDestroy(part));
  OK(ncclCommDestroy(whole));
  /* Calls of a group that have failed when it ends are the group's error, in each mode. */
  for (int blocking = 0; blocking < 2; ++blocking) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking;
    OK(ncclCommSplit(held->comms[0], 0, 0, &whole, &config));
    REQUIRE(sumOf(held->comms[0]) == held->size);
    OK(ncclCommRevoke(whole, 0));
    OK(ncclGroupStart());
    OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, whole, 0));
    REQUIRE(ncclGroupEnd() == ncclRemoteError);
    OK(ncclCommDestroy(whole));
  }
}

static void* abortSoon(void* comm) {
  usleep(50000);
  OK(ncclCommAbort((ncclComm_t)comm));
  return NULL;
}

static void aborts(Held* held) {
  ncclComm_t part = NULL;
  int number = 0;
  OK(ncclCommSplit(held->comms[0], 0, 0, &part, NULL));
  if (held->size == 1) {
    OK(ncclCommAbort(part));
    return;
  }
  /* Rank 0 waits for a message that no rank sends. Its other thread aborts the wait. */
  if (held->ranks[0] == 0) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, abortSoon, part) == 0);
    REQUIRE(ncclRecv(&number, 1, ncclInt, 1, part, 0) == ncclRemoteError && says("abort"));
    pthread_join(thread, NULL);
  } else {
    REQUIRE(settled(part) == ncclSuccess || settled(part) == ncclRemoteError);
    for (const double end = now() + 10; settled(part) == ncclSuccess && now() < end;) usleep(1000);
    REQUIRE(settled(part) == ncclRemoteError);
    REQUIRE(strstr(ncclGetLastError(part), "rank 0 aborted"));
    OK(ncclCommAbort(part));
  }
  REQUIRE(sumOf(held->comms[0]) == held->size); /* only the split communicator has failed */
}

/* One thread creates all ranks of a communicator, from an id and in a group. */
static void groupedRanks(Held* held) {
  ncclComm_t comms[MOST_RANKS], parts[MOST_RANKS];
  int sums[MOST_RANKS], one = 1;
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  OK(ncclGroupStart());
  for (int i = 0; i < held->size; ++i) OK(ncclCommInitRank(&comms[i], held->size, id, i));
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  for (int i = 0; i < held->size; ++i) OK(ncclCommSplit(comms[i], i % 2, 0, &parts[i], NULL));
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  for (int i = 0; i < held->size; ++i)
    OK(ncclAllReduce(&one, &sums[i], 1, ncclInt, ncclSum, parts[i], 0));
  OK(ncclGroupEnd());
  for (int i = 0; i < held->size; ++i) {
    REQUIRE(sums[i] == (held->size + 1 - i % 2) / 2);
    OK(ncclCommDestroy(parts[i]));
    OK(ncclCommDestroy(comms[i]));
  }
}

/* An abort does not wait for a creation, which here takes RONDO_INIT_TIMEOUT: no other rank comes. */
static void abortsCreation(Held* held) {
  (void)held;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = NULL;
  ncclUniqueId id;
  ncclResult_t state = ncclSuccess;
  OK(ncclGetUniqueId(&id));
  REQUIRE(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
  OK(ncclCommGetAsyncError(comm, &state));
  REQUIRE(state == ncclInProgress);
  const double begin = now();
  OK(ncclCommAbort(comm));
  REQUIRE(now() - begin < 40);
  REQUIRE(ncclCommAbort(comm) == ncclInvalidArgument && says("destroyed"));
}

/* A group with a wrong call does not wait for the communicators that it creates: their other ranks
 * may not come. */
static void groupAbortsCreation(Held* held) {
  (void)held;
  ncclComm_t comm = NULL, wrong = NULL;
  ncclUniqueId id;
  ncclResult_t state = ncclSuccess;
  OK(ncclGetUniqueId(&id));
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&comm, 2, id, 0));
  REQUIRE(ncclCommInitRank(&wrong, 2, id, 5) == ncclInvalidArgument);
  REQUIRE(ncclGroupEnd() == ncclInvalidArgument && says("rank 5"));
  OK(ncclCommGetAsyncError(comm, &state));
  REQUIRE(state == ncclInvalidArgument);
  REQUIRE(strstr(ncclGetLastError(comm), "the group in which it was created"));
  OK(ncclCommDestroy(comm));
}

/* Unsupported functions are exported, and their error says that they are unsupported. */
static void stubs(Held* held) {
  (void)held;
  ncclResult_t (*suspend)(void) = NULL;
  *(void**)&suspend = dlsym(RTLD_DEFAULT, "ncclCommSuspend");
  REQUIRE(suspend != NULL);
  REQUIRE(suspend() == ncclInvalidUsage && says("ncclCommSuspend"));
}

static const struct {
  const char* name;
  int made;
  Body body;
} all[] = {{"questions", 1, questions},
           {"splits", 1, splits},
           {"groups", 1, groups},
           {"endsInGroup", 1, endsInGroup},
           {"groupsOfSeveral", 1, groupsOfSeveral},
           {"allToAllInPlace", 1, allToAllInPlace},
           {"operators", 1, operators},
           {"memory", 1, memory},
           {"refusals", 1, refusals},
           {"ends", 1, ends},
           {"notBlocking", 0, notBlocking},
           {"notBlockingSplits", 1, notBlockingSplits},
           {"scalable", 0, scalable},
           {"shrinks", 1, shrinks},
           {"revokes", 1, revokes},
           {"aborts", 1, aborts},
           {"abortsCreation", 0, abortsCreation},
           {"groupAbortsCreation", 0, groupAbortsCreation},
           {"stubs", 0, stubs},
           {"groupedRanks", 0, groupedRanks},
           {"configurations", 0, configurations},
           {"emptyMessages", 1, emptyMessages}};

int main(int count, char** words) {
  REQUIRE(count >= 3);
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
    if (count > 3 && strcmp(words[3], all[i].name) != 0) continue;
    const double begin = now();
    if (runRanks(words[1], atoi(words[2]), all[i].made, all[i].body) != 0) {
      fprintf(stderr, "%s failed\n", all[i].name);
      return 1;
    }
    if (getenv("TIMES")) printf("%s %.3f s\n", all[i].name, now() - begin);
  }
  printf("ok\n");
  return 0;
}
