/* Tests ncclCommGrow(): all ranks but the last have a communicator, and the last one joins it. Also
 * tests its errors and concurrent calls. usage: growth processes|threads RANKS [NAME] */
#include <dlfcn.h>
#include <string.h>

#include "header.h"

/* Looks the functions up by name, since NVIDIA's header of 2.28 does not declare them. */
static ncclResult_t growthId(ncclComm_t comm, ncclUniqueId* id) {
  ncclResult_t (*call)(ncclComm_t, ncclUniqueId*) = NULL;
  *(void**)&call = dlsym(RTLD_DEFAULT, "ncclCommGetUniqueId");
  REQUIRE(call);
  return call(comm, id);
}
static ncclResult_t grow(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank,
                         ncclComm_t* grown, ncclConfig_t* config) {
  ncclResult_t (*call)(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*) =
      NULL;
  *(void**)&call = dlsym(RTLD_DEFAULT, "ncclCommGrow");
  REQUIRE(call);
  return call(comm, ranks, id, rank, grown, config);
}

/* Whether this is the last rank, which joins the communicator of the others. */
static int joins(const Held* held) { return held->ranks[0] == held->size - 1; }

/* Rank 0 of the part creates an id; returns it on all ranks. */
static ncclUniqueId idOf(ncclComm_t part, const Held* held) {
  ncclUniqueId id;
  if (held->ranks[0] == 0) OK(growthId(part, &id));
  OK(ncclBroadcast(&id, &id, sizeof id, ncclInt8, 0, held->comms[0], 0));
  return id;
}

/* Joins the part, or grows it; of its ranks only rank 0 passes the id. */
static void growsTo(ncclComm_t part, const Held* held) {
  const int rank = held->ranks[0], size = held->size;
  const ncclUniqueId id = idOf(part, held);
  ncclComm_t grown = NULL;
  OK(grow(part, size, rank == 0 || joins(held) ? &id : NULL, joins(held) ? rank : -1, &grown,
          NULL));
  int own = -1;
  OK(ncclCommUserRank(grown, &own));
  REQUIRE(own == rank && sumOf(grown) == size);
  OK(ncclCommDestroy(grown));
}

static void grows(Held* held) {
  if (held->size == 1) return;
  ncclComm_t part = NULL, grown = NULL;
  ncclUniqueId id;
  OK(ncclCommSplit(held->comms[0], joins(held) ? -1 : 0, 0, &part, NULL));
  if (joins(held)) {
    REQUIRE(grow(NULL, held->size, NULL, held->ranks[0], &grown, NULL) == ncclInvalidArgument &&
            says("id is null"));
    REQUIRE(growthId(NULL, &id) == ncclInvalidArgument);
  }
  growsTo(part, held);
  growsTo(part, held); /* a communicator can grow repeatedly */
  if (part) OK(ncclCommDestroy(part));
  REQUIRE(sumOf(held->comms[0]) == held->size);
}

enum Wrong { RANKS_FEW, RANKS_OTHER, RANK_GIVEN, NO_ID, OTHER_ID, CONFIG, NOWHERE, JOINER, WRONGS };

/* One rank's call is wrong: all ranks, including the joining one, get the same error at once. */
static void refusedGrowth(ncclComm_t part, const Held* held, enum Wrong wrong) {
  static const char* const texts[WRONGS] = {
      "already",         "ranks, rank",        "pass -1", "no rank passed",
      "ids that differ", "CONFIG_INITIALIZER", "address", "CONFIG_INITIALIZER"};
  const int rank = held->ranks[0], size = held->size, last = size - 2;
  /* A part of one rank cannot differ from others; and if its only rank passes too small a size, the
   * joining rank cannot be found. */
  if (last == 0 && (wrong == RANKS_FEW || wrong == RANKS_OTHER || wrong == OTHER_ID)) return;
  const ncclUniqueId id = idOf(part, held);
  ncclUniqueId other = id;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t grown = NULL;
  const int odd = wrong == JOINER ? joins(held) : rank == last;
  const ncclUniqueId* passed = rank == 0 || joins(held) ? &id : NULL;
  int ranks = size, given = joins(held) ? rank : -1;
  if (odd && wrong == RANKS_FEW) ranks = last + 1;
  if (odd && wrong == RANKS_OTHER) ranks = size + 1;
  if (odd && wrong == RANK_GIVEN) given = rank;
  if (odd && wrong == OTHER_ID) {
    OK(growthId(part, &other));
    passed = &other;
  }
  if (odd && (wrong == CONFIG || wrong == JOINER)) config.magic = 0;
  if (wrong == NO_ID && joins(held)) return; /* without an id no rank could tell it the error */
  if (wrong == NO_ID) passed = NULL;
  const double begin = now();
  REQUIRE(grow(part, ranks, passed, given, odd && wrong == NOWHERE ? NULL : &grown, &config) ==
          ncclInvalidArgument);
  REQUIRE(grown == NULL && says(texts[wrong]));
  REQUIRE(now() - begin < 15); /* the deadline is 60 s */
  if (wrong == RANKS_FEW || wrong == RANK_GIVEN || wrong == CONFIG || wrong == NOWHERE) {
    char culprit[32];
    snprintf(culprit, sizeof culprit, "rank %d: ", last);
    REQUIRE(says(culprit));
  }
}

static void growthsAreRefused(Held* held) {
  if (held->size == 1) return;
  ncclComm_t part = NULL;
  OK(ncclCommSplit(held->comms[0], joins(held) ? -1 : 0, 0, &part, NULL));
  for (enum Wrong wrong = 0; wrong < WRONGS; ++wrong) refusedGrowth(part, held, wrong);
  growsTo(part, held);
  if (part) OK(ncclCommDestroy(part));
}

/* The communicator has failed: the joining rank gets its error at once. */
static void failedOnesDoNotGrow(Held* held) {
  if (held->size == 1) return;
  ncclComm_t part = NULL, grown = NULL;
  OK(ncclCommSplit(held->comms[0], joins(held) ? -1 : 0, 0, &part, NULL));
  const int rank = held->ranks[0];
  const ncclUniqueId id = idOf(part, held);
  if (rank == 0) OK(ncclCommRevoke(part, 0));
  const double begin = now();
  const ncclResult_t result = grow(part, held->size, rank == 0 || joins(held) ? &id : NULL,
                                   joins(held) ? rank : -1, &grown, NULL);
  REQUIRE(result != ncclSuccess && grown == NULL);
  REQUIRE(now() - begin < 15); /* the deadline is 60 s */
  if (joins(held)) REQUIRE(says("rank 0"));
  /* Keeps rank 0, which serves the id, alive until all ranks have the error. */
  REQUIRE(sumOf(held->comms[0]) == held->size);
  if (part) OK(ncclCommAbort(part));
}

/* The program makes calls and a split while the communicator grows. */
static void growsBesideCalls(Held* held) {
  if (held->size == 1) return;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t part = NULL, grown = NULL, half = NULL;
  const ncclResult_t split = ncclCommSplit(held->comms[0], joins(held) ? -1 : 0, 0, &part, &config);
  finished(split, held->comms[0]); /* a rank that stays out has no other */
  for (int i = 0; i < 3; ++i) {
    const ncclUniqueId id = idOf(part, held);
    if (joins(held)) {
      OK(grow(NULL, held->size, &id, held->ranks[0], &grown, NULL));
    } else {
      /* Ranks call ncclCommGrow() at different positions among calls in flight. */
      int ones[2] = {1, 1}, sums[2] = {0, 0};
      const int before = (held->ranks[0] + i) % 2;
      for (int call = 0; call < 2; ++call) {
        if (call == before)
          REQUIRE(grow(part, held->size, &id, -1, &grown, NULL) == ncclInProgress);
        const ncclResult_t made =
            ncclAllReduce(&ones[call], &sums[call], 1, ncclInt, ncclSum, part, 0);
        REQUIRE(made == ncclSuccess || made == ncclInProgress);
      }
      REQUIRE(ncclCommSplit(part, 0, 0, &half, NULL) == ncclInProgress);
      REQUIRE(settled(part) == ncclSuccess && settled(grown) == ncclSuccess);
      REQUIRE(settled(half) == ncclSuccess);
      REQUIRE(sums[0] == held->size - 1 && sums[1] == held->size - 1);
      OK(ncclCommDestroy(half));
    }
    int sum = 0, one = 1;
    finished(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, grown, 0), grown);
    REQUIRE(sum == held->size);
    OK(ncclCommDestroy(grown));
  }
  if (part) OK(ncclCommDestroy(part));
}

int main(int count, char** words) {
  static const struct {
    const char* name;
    Body body;
  } all[] = {{"grows", grows},
             {"growthsAreRefused", growthsAreRefused},
             {"failedOnesDoNotGrow", failedOnesDoNotGrow},
             {"growsBesideCalls", growsBesideCalls}};
  REQUIRE(count >= 3);
  for (int i = 0; i < 4; ++i) {
    if (count > 3 && strcmp(words[3], all[i].name) != 0) continue;
    if (runRanks(words[1], atoi(words[2]), 1, all[i].body) == 0) continue;
    fprintf(stderr, "%s failed\n", all[i].name);
    return 1;
  }
  printf("ok\n");
  return 0;
}
