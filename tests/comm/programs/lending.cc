// A rank that allocates, uses and releases memory repeatedly, and then prints how much shared
// memory this process maps.
//
// Argument: number of repetitions. Prints "mapped RANK KIB RESIDENT_KIB".
#include <cstdio>
#include <cstdlib>

#include "rondo/communicator.h"
#include "support/shared_memory.h"

int main(int, char** argv) {
  constexpr std::size_t kBytes = 8 << 20, kCount = 100'000;
  auto comm = rondo::Communicator::create(rondo::Rendezvous::environment());
  for (int round = std::atoi(argv[1]); round > 0; --round) {
    rondo::Buffer buffer = comm.allocate(kBytes);
    auto* data = static_cast<float*>(buffer.data());
    for (std::size_t i = 0; i < kCount; ++i) data[i] = 1;
    comm.allReduce(data, data, kCount, rondo::DataType::float32, rondo::ReduceOp::sum);
    if (data[kCount - 1] != static_cast<float>(comm.size())) return 1;
  }
  comm.barrier(); // all ranks have released all memory
  const auto memory = rondo::test::sharedMemory();
  std::printf("mapped %d %zu %zu\n", comm.rank(), memory.mapped_kib, memory.resident_kib);
}
