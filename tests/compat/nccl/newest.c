/* Tests functions of NCCL 2.29 to 2.32, which header_check.cc compares with such a header: the
 * collectives with a configuration of their own, encryption and parameters.
 * usage: newest processes|threads RANKS */
#include <string.h>

#include "header.h"

static ncclCollConfig_t plainConfig(void) {
  const int unset = RONDO_NCCL_UNSET;
  const ncclCollConfig_t config = {sizeof config, RONDO_NCCL_CONFIG_MAGIC,
                                   23203,         NULL,
                                   unset,         unset,
                                   unset,         unset,
                                   NULL,          1,
                                   unset,         0,
                                   NULL};
  return config;
}

/* Each collective gives the result of the one without a configuration. */
static void configuredCallsCompute(Held* held) {
  const ncclComm_t comm = held->comms[0];
  const int size = held->size, rank = held->ranks[0], last = size - 1;
  ncclCollConfig_t config = plainConfig();
  config.maxCTAs = 4;
  config.userProfilerTag = 7;
  int mine[MOST_RANKS], all[MOST_RANKS], one = rank + 1, out = 0;
  const int sum = size * (size + 1) / 2;
  OK(ncclAllReduceConfig(&one, &out, 1, ncclInt, ncclSum, comm, 0, &config));
  REQUIRE(out == sum);
  OK(ncclAllReduceConfig(&one, &out, 1, ncclInt, ncclMax, comm, 0, NULL));
  REQUIRE(out == size);
  OK(ncclReduceConfig(&one, &out, 1, ncclInt, ncclMin, last, comm, 0, &config));
  REQUIRE(rank != last || out == 1);
  OK(ncclBroadcastConfig(&one, &out, 1, ncclInt, last, comm, 0, &config));
  REQUIRE(out == size);
  OK(ncclAllGatherConfig(&one, all, 1, ncclInt, comm, 0, &config));
  for (int i = 0; i < size; ++i) REQUIRE(all[i] == i + 1);
  for (int i = 0; i < size; ++i) mine[i] = 10 * rank + i;
  OK(ncclAlltoAllConfig(mine, all, 1, ncclInt, comm, 0, &config));
  for (int i = 0; i < size; ++i) REQUIRE(all[i] == 10 * i + rank);
  OK(ncclScatterConfig(mine, &out, 1, ncclInt, last, comm, 0, &config));
  REQUIRE(out == 10 * last + rank);
  OK(ncclGatherConfig(&one, all, 1, ncclInt, last, comm, 0, &config));
  for (int i = 0; i < size; ++i) REQUIRE(rank != last || all[i] == i + 1);
  for (int i = 0; i < size; ++i) mine[i] = i;
  OK(ncclReduceScatterConfig(mine, &out, 1, ncclInt, ncclSum, comm, 0, &config));
  REQUIRE(out == rank * size);
}

/* What Rondo cannot do for one call is refused, with an error that says so. */
static void configurationsAreRefused(Held* held) {
  const ncclComm_t comm = held->comms[0];
  int one = 1, sum = 0;
  ncclCollConfig_t config = plainConfig();
  config.algSelection = "allreduce:nvls";
  REQUIRE(ncclAllReduceConfig(&one, &sum, 1, ncclInt, ncclSum, comm, 0, &config) ==
              ncclInvalidUsage &&
          strstr(ncclGetLastError(NULL), "algSelection"));
  config.forceAlgSelection = 0;
  OK(ncclAllReduceConfig(&one, &sum, 1, ncclInt, ncclSum, comm, 0, &config));
  REQUIRE(sum == held->size);
  config.minCTAs = 8;
  config.maxCTAs = 2;
  REQUIRE(ncclAllReduceConfig(&one, &sum, 1, ncclInt, ncclSum, comm, 0, &config) ==
          ncclInvalidArgument);
  config = plainConfig();
  config.launchCompletionEvent = (struct CUevent_st*)&one;
  REQUIRE(ncclAllReduceConfig(&one, &sum, 1, ncclInt, ncclSum, comm, 0, &config) ==
          ncclInvalidUsage);
  config = plainConfig();
  config.magic = 1;
  REQUIRE(ncclAllReduceConfig(&one, &sum, 1, ncclInt, ncclSum, comm, 0, &config) ==
          ncclInvalidArgument);
  ncclEncryptionConfig_t encryption = {sizeof encryption, RONDO_NCCL_CONFIG_MAGIC, 23203, 0, NULL};
  OK(ncclSetEncryption(&encryption));
  encryption.mode = 1;
  REQUIRE(ncclSetEncryption(&encryption) == ncclInvalidUsage &&
          strstr(ncclGetLastError(NULL), "RONDO_TLS"));
}

/* Parameters are the environment variables of NCCL that Rondo reads. */
static void parametersAreRead(Held* held) {
  (void)held;
  const char *text = NULL, **keys = NULL;
  int count = 0, number = -1, length = 0;
  ncclParamHandle_t handle = NULL;
  OK(ncclParamGetAllParameterKeys(&keys, &count));
  REQUIRE(count > 5);
  for (int i = 0; i < count; ++i) OK(ncclParamBind(&handle, keys[i]));
  OK(ncclParamBind(&handle, "NCCL_SHM_DISABLE"));
  OK(ncclParamGetI32(handle, &number));
  const char* disabled = getenv("NCCL_SHM_DISABLE");
  REQUIRE(number == (disabled ? atoi(disabled) : 0));
  uint8_t small = 9;
  OK(ncclParamGetU8(handle, &small));
  REQUIRE(small == number);
  OK(ncclParamGetStr(handle, &text));
  REQUIRE(strlen(text) == 1 && text[0] == '0' + number);
  char bytes[2];
  OK(ncclParamGet(handle, bytes, 2, &length));
  REQUIRE(length == 2 && bytes[0] == text[0]);
  REQUIRE(ncclParamGet(handle, bytes, 1, &length) == ncclInvalidArgument);
  OK(ncclParamGetParameter("NCCL_ALGO", &text, &length));
  REQUIRE(length == (int)strlen(text));
  REQUIRE(ncclParamGetParameter("NCCL_NO_SUCH", &text, &length) == ncclInvalidArgument);
  OK(ncclParamBind(&handle, "NCCL_HOSTID"));
  REQUIRE(getenv("NCCL_HOSTID") || ncclParamGetI64(handle, &(int64_t){0}) == ncclInvalidArgument);
  REQUIRE(ncclParamBind(&handle, NULL) == ncclInvalidArgument);
  REQUIRE(ncclParamGetI32(NULL, &number) == ncclInvalidArgument);
}

int main(int count, char** words) {
  REQUIRE(count == 3);
  const Body all[] = {configuredCallsCompute, configurationsAreRefused, parametersAreRead};
  for (int i = 0; i < 3; ++i)
    if (runRanks(words[1], atoi(words[2]), 1, all[i]) != 0) {
      fprintf(stderr, "case %d failed\n", i);
      return 1;
    }
  printf("ok\n");
  return 0;
}
