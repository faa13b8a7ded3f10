// Calls UCC's collectives for mpi_bench.c, if that is compiled with SHIM defined. MPI starts the
// processes and does the barriers between timed calls; UCC moves the data. A request is reused
// while the call's arguments stay the same (UCC's persistent collectives), which is UCC's fastest
// way.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucc/api/ucc.h>

const char* shim_version(void);
void shim_open(void);
void shim_close(void);
void shim_call(int which, float* in, float* out, int count);

static ucc_context_h ucc_context;
static ucc_team_h ucc_team;
static ucc_lib_h ucc_lib;
static ucc_coll_req_h ucc_request; // the last call's request, or null

static void ucc_require(ucc_status_t status, const char* what) {
  if (status == UCC_OK) return;
  fprintf(stderr, "UCC: %s: %s\n", what, ucc_status_string(status));
  MPI_Abort(MPI_COMM_WORLD, 5);
}

static ucc_status_t ucc_meet(void* mine, void* all, size_t bytes, void* unused, void** request) {
  (void)unused;
  *request = mine; // any value will do: the call below has ended when this returns
  MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
  return UCC_OK;
}
static ucc_status_t ucc_met(void* request) {
  (void)request;
  return UCC_OK;
}

const char* shim_version(void) {
  return "UCC " UCC_VERSION_STRING;
}

void shim_open(void) {
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const ucc_lib_params_t lib = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
                                .thread_mode = UCC_THREAD_SINGLE};
  ucc_lib_config_h lib_config;
  ucc_require(ucc_lib_config_read(NULL, NULL, &lib_config), "configuration");
  ucc_require(ucc_init(&lib, lib_config, &ucc_lib), "start");
  ucc_lib_config_release(lib_config);
  const ucc_oob_coll_t oob = {.allgather = ucc_meet,
                              .req_test = ucc_met,
                              .req_free = ucc_met,
                              .n_oob_eps = (uint32_t)ranks,
                              .oob_ep = (uint32_t)rank};
  const ucc_context_params_t context = {.mask = UCC_CONTEXT_PARAM_FIELD_OOB, .oob = oob};
  ucc_context_config_h config;
  ucc_require(ucc_context_config_read(ucc_lib, NULL, &config), "configuration");
  ucc_require(ucc_context_create(ucc_lib, &context, config, &ucc_context), "context");
  ucc_context_config_release(config);
  const ucc_team_params_t team = {
      .mask = UCC_TEAM_PARAM_FIELD_OOB | UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE,
      .oob = oob,
      .ep = (uint64_t)rank,
      .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG};
  ucc_require(ucc_team_create_post(&ucc_context, 1, &team, &ucc_team), "team");
  ucc_status_t status;
  while ((status = ucc_team_create_test(ucc_team)) == UCC_INPROGRESS)
    ucc_context_progress(ucc_context);
  ucc_require(status, "team");
}

void shim_close(void) {
  if (ucc_request) ucc_require(ucc_collective_finalize(ucc_request), "end of a request");
  while (ucc_team_destroy(ucc_team) == UCC_INPROGRESS) ucc_context_progress(ucc_context);
  ucc_context_destroy(ucc_context);
  ucc_finalize(ucc_lib);
}

// `count`: number of floats in one block.
void shim_call(int which, float* in, float* out, int count) {
  static const ucc_coll_type_t kTypes[] = {
      UCC_COLL_TYPE_ALLREDUCE,      UCC_COLL_TYPE_BCAST,     UCC_COLL_TYPE_REDUCE,
      UCC_COLL_TYPE_REDUCE_SCATTER, UCC_COLL_TYPE_ALLGATHER, UCC_COLL_TYPE_GATHER,
      UCC_COLL_TYPE_SCATTER,        UCC_COLL_TYPE_ALLTOALL,  UCC_COLL_TYPE_BARRIER};
  static struct {
    int which, count;
    float *in, *out;
  } known = {-1, 0, NULL, NULL};
  if (known.which != which || known.count != count || known.in != in || known.out != out) {
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const ucc_coll_type_t type = kTypes[which];
    // If a buffer has one block for each rank, UCC's count includes all blocks.
    const int all_in = type == UCC_COLL_TYPE_REDUCE_SCATTER || type == UCC_COLL_TYPE_SCATTER ||
                       type == UCC_COLL_TYPE_ALLTOALL;
    const int all_out = type == UCC_COLL_TYPE_ALLGATHER || type == UCC_COLL_TYPE_GATHER ||
                        type == UCC_COLL_TYPE_ALLTOALL;
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .coll_type = type,
                            .op = UCC_OP_SUM,
                            .flags = UCC_COLL_ARGS_FLAG_PERSISTENT,
                            .root = 0};
    args.src.info = (ucc_coll_buffer_info_t){type == UCC_COLL_TYPE_BCAST && rank != 0 ? out : in,
                                             (uint64_t)count * (uint64_t)(all_in ? ranks : 1),
                                             UCC_DT_FLOAT32, UCC_MEMORY_TYPE_HOST};
    args.dst.info = (ucc_coll_buffer_info_t){out, (uint64_t)count * (uint64_t)(all_out ? ranks : 1),
                                             UCC_DT_FLOAT32, UCC_MEMORY_TYPE_HOST};
    if (ucc_request) ucc_require(ucc_collective_finalize(ucc_request), "end of a request");
    ucc_require(ucc_collective_init(&args, &ucc_request, ucc_team), "request");
    known.which = which;
    known.count = count;
    known.in = in;
    known.out = out;
  }
  ucc_require(ucc_collective_post(ucc_request), "call");
  ucc_status_t status;
  while ((status = ucc_collective_test(ucc_request)) == UCC_INPROGRESS)
    ucc_context_progress(ucc_context);
  ucc_require(status, "call");
}
