/* Tests that calls on host memory come after the work in their stream, with a stand-in of the CUDA
 * driver (driver.c). */
#include "driver.h"
#include "header.h"

typedef struct {
  float* to;
  float value;
} Store;

static void store(void* at) {
  const Store* const one = at;
  *one->to = one->value;
}

int main(void) {
  ncclComm_t comm = NULL;
  float factor = 1, value = 4, sum = 0;
  ncclRedOp_t op;
  OK(ncclCommInitAll(&comm, 1, NULL));
  OK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarDevice, comm));
  /* The stream writes the input, and then the operator's factor. */
  Store stores[2] = {{&value, 5}, {&factor, 2}};
  Stream streams[2] = {{store, &stores[0]}, {store, &stores[1]}};
  OK(ncclAllReduce(&value, &sum, 1, ncclFloat, ncclSum, comm, (cudaStream_t)&streams[0]));
  REQUIRE(sum == 5);
  OK(ncclAllReduce(&value, &sum, 1, ncclFloat, op, comm, (cudaStream_t)&streams[1]));
  REQUIRE(sum == 10);
  stores[1].value = 3;
  OK(ncclGroupStart());
  OK(ncclAllReduce(&value, &sum, 1, ncclFloat, op, comm, (cudaStream_t)&streams[1]));
  OK(ncclGroupEnd());
  REQUIRE(sum == 15);
  REQUIRE(ncclRedOpCreatePreMulSum(&op, ON_DEVICE, ncclFloat, ncclScalarDevice, comm) ==
          ncclInvalidArgument);
  REQUIRE(says("ncclScalarHostImmediate"));
  OK(ncclCommDestroy(comm));
  printf("ok\n");
  return 0;
}
