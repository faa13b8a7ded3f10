// Two ranks, as threads, reduce all types with all operators. Prints the instruction set of the
// kernels as "set NAME", then "TYPE OPERATOR HASH" of the results' bits for each of them.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "kernels/reduce.h"
#include "rondo/communicator.h"
#include "tests/kernels/reference.h"

namespace {

using rondo::Communicator;
using rondo::DataType;
using rondo::ReduceOp;

constexpr std::size_t kCounts[] = {1, 7, 64, 1001, 40'000};

/// Random bits, the same on each machine; of floats these are numbers of all sizes, infinities,
/// NaNs and subnormals.
std::vector<std::byte> input(DataType type, std::size_t count, int rank) {
  std::vector<std::byte> data(count * rondo::sizeOf(type));
  std::uint64_t state = 0x9e3779b97f4a7c15 * (count + 1) + static_cast<std::uint64_t>(rank);
  for (std::byte& byte : data) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(state >> 56);
  }
  return data;
}

/// FNV-1a. All NaNs count as the same: their sign and payload depend on the processor.
void add(std::uint64_t& hash, DataType type, const std::vector<std::byte>& data) {
  const std::size_t bytes = rondo::sizeOf(type);
  for (std::size_t at = 0; at < data.size(); at += bytes) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &data[at], bytes); // little endian
    if (rondo::test::isNanBits(type, bits)) bits = ~std::uint64_t{0};
    hash = (hash ^ bits) * 1099511628211U;
  }
}

std::uint64_t reduce(Communicator& comm, DataType type, ReduceOp op) {
  std::uint64_t hash = 14695981039346656037U;
  for (const std::size_t count : kCounts) {
    std::vector<std::byte> data = input(type, count, comm.rank());
    comm.allReduce(data.data(), data.data(), count, type, op);
    add(hash, type, data);
  }
  return hash;
}

void every(Communicator comm) {
  for (const DataType type : rondo::kDataTypes)
    for (const ReduceOp op : rondo::kReduceOps) {
      if (!op.supports(type)) continue;
      const std::uint64_t hash = reduce(comm, type, op);
      if (comm.rank() == 0)
        std::printf("%s %s %016llx\n", std::string(name(type)).c_str(),
                    std::string(name(op)).c_str(), static_cast<unsigned long long>(hash));
    }
}

} // namespace

int main() {
  std::printf("set %s\n", std::string(rondo::kernels::instructionSet()).c_str());
  std::vector<std::jthread> threads;
  for (Communicator& comm : Communicator::createAll(2))
    threads.emplace_back(every, std::move(comm));
}
