// Calls oneCCL's collectives for mpi_bench.c, if that is compiled with SHIM defined. Intel MPI
// starts the processes and does the barriers between timed calls; oneCCL does the timed calls.
#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <oneapi/ccl.hpp>
#include <optional>
#include <string>

namespace {

/// The communicator of all ranks, and what it needs.
struct World {
  int rank = 0;
  std::shared_ptr<ccl::kvs> store; ///< where the ranks found each other
  std::optional<ccl::communicator> ranks;
};
World world;

template <class Do>
void require(const Do& act) {
  try {
    act();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "oneCCL: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 5);
  }
}

} // namespace

extern "C" {

// The static library calls Intel's tracing library through these pointers, and lacks their
// definitions. Null: it traces nothing.
void *__itt_domain_create_ptr__3_0, *__itt_event_create_ptr__3_0, *__itt_event_end_ptr__3_0,
    *__itt_event_start_ptr__3_0, *__itt_metadata_add_ptr__3_0, *__itt_string_handle_create_ptr__3_0,
    *__itt_task_begin_ptr__3_0, *__itt_task_end_ptr__3_0, *__itt_thread_set_name_ptr__3_0;

const char* shim_version() {
  static const std::string text = std::string("oneCCL ") + ccl::get_library_version().full;
  return text.c_str();
}

void shim_open() {
  require([] {
    ccl::init();
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
    ccl::kvs::address_type address{};
    if (world.rank == 0) {
      world.store = ccl::create_main_kvs();
      address = world.store->get_address();
    }
    MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (world.rank != 0) world.store = ccl::create_kvs(address);
    world.ranks.emplace(ccl::create_communicator(size, world.rank, world.store));
  });
}

void shim_close() {
  world.ranks.reset();
  world.store.reset();
}

/// `count`: number of floats in one block.
void shim_call(int which, float* in, float* out, int count) {
  require([&] {
    constexpr auto type = ccl::datatype::float32;
    constexpr auto sum = ccl::reduction::sum;
    const auto n = static_cast<std::size_t>(count);
    const ccl::communicator& ranks = *world.ranks;
    const auto start = [&] {
      switch (which) { // the order of kCollectives in mpi_bench.c
        case 0: return ccl::allreduce(in, out, n, type, sum, ranks);
        case 1:
          return ccl::broadcast(static_cast<void*>(world.rank == 0 ? in : out), n, type, 0, ranks);
        case 2: return ccl::reduce(in, out, n, type, sum, 0, ranks);
        case 3: return ccl::reduce_scatter(in, out, n, type, sum, ranks);
        case 4: return ccl::allgather(in, out, n, type, ranks);
        case 7: return ccl::alltoall(in, out, n, type, ranks);
        case 8: return ccl::barrier(ranks);
        default: throw ccl::exception("oneCCL has neither gather nor scatter");
      }
    };
    start().wait();
  });
}

} // extern "C"
