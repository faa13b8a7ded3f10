// The calls that take element type and count from their buffers.
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

static_assert(DataTypeOf<std::int8_t>::value == DataType::int8);
static_assert(DataTypeOf<char>::value == DataType::int8);
static_assert(DataTypeOf<std::byte>::value == DataType::uint8);
static_assert(DataTypeOf<unsigned short>::value == DataType::uint16);
static_assert(DataTypeOf<int>::value == DataType::int32);
static_assert(DataTypeOf<long long>::value == DataType::int64);
static_assert(DataTypeOf<std::uint64_t>::value == DataType::uint64);
static_assert(DataTypeOf<float>::value == DataType::float32);
static_assert(DataTypeOf<double>::value == DataType::float64);
static_assert(!Elements<std::vector<std::string>> && !Elements<int>);
static_assert(!ElementsLike<std::vector<double>, std::vector<float>>);

using Vector = std::vector<std::int32_t>;

/// Elements 10 * rank, 10 * rank + 1, ...
Vector numbered(int rank, int count) {
  Vector values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 10 * rank);
  return values;
}

std::string reductions(Communicator& comm, int size) {
  const int all = size * (size - 1) / 2 * 10; // the sum of the ranks' first elements
  Vector own = numbered(comm.rank(), 3), result(3);
  comm.allReduce(own, result, ReduceOp::sum);
  if (result != Vector{all, all + size, all + 2 * size}) return "allReduce";
  comm.allReduceAsync(std::span(own).first(2), ReduceOp::sum).wait();
  if (own != Vector{all, all + size, 10 * comm.rank() + 2}) return "allReduce in place";
  own = numbered(comm.rank(), 3);
  Vector at_root(comm.rank() == size - 1 ? 3 : 0);
  comm.reduce(own, at_root, ReduceOp::max, size - 1);
  if (!at_root.empty() && at_root != numbered(size - 1, 3)) return "reduce";
  std::array<std::int32_t, 1> part{};
  comm.reduceScatter(numbered(comm.rank(), size), part, ReduceOp::sum);
  if (part[0] != all + size * comm.rank()) return "reduceScatter";
  return "";
}

std::string movements(Communicator& comm, int size) {
  const int rank = comm.rank();
  Vector value = numbered(rank, 2);
  comm.broadcast(value, size - 1);
  if (value != numbered(size - 1, 2)) return "broadcast";
  Vector one(1);
  comm.scatter(rank == 0 ? numbered(3, size) : Vector{}, one, 0);
  if (one != Vector{30 + rank}) return "scatter";
  Vector everything(static_cast<std::size_t>(size)), at_root(rank == 0 ? everything : Vector{});
  comm.gather(one, at_root, 0);
  if (rank == 0 && at_root != numbered(3, size)) return "gather";
  comm.allGather(one, everything);
  if (everything != numbered(3, size)) return "allGather";
  Vector received(everything.size());
  comm.allToAll(numbered(rank, size), received);
  for (int r = 0; r < size; ++r)
    if (received[static_cast<std::size_t>(r)] != 10 * r + rank) return "allToAll";
  const Vector token = numbered(rank, 1);
  Group group;
  comm.send(token, (rank + 1) % size);
  comm.recv(one, (rank + size - 1) % size);
  group.end();
  return one == numbered((rank + size - 1) % size, 1) ? "" : "send and recv";
}

/// Rank r has r + 1 elements.
std::string uneven(Communicator& comm, int size) {
  std::vector<std::size_t> counts, offsets;
  for (int r = 0; r < size; ++r) {
    offsets.push_back(r == 0 ? 0 : offsets.back() + counts.back());
    counts.push_back(static_cast<std::size_t>(r) + 1);
  }
  const Blocks blocks{counts, offsets};
  Vector whole(offsets.back() + counts.back()), expected;
  for (int r = 0; r < size; ++r)
    for (int i = 0; i <= r; ++i) expected.push_back(10 * r + i);
  const Vector own = numbered(comm.rank(), comm.rank() + 1);
  comm.allGatherv(own, whole, blocks);
  if (whole != expected) return "allGatherv";
  Vector part(own.size());
  comm.scatterv(whole, blocks, part, 0);
  if (part != own) return "scatterv";
  comm.reduceScatterv(whole, blocks, part, ReduceOp::max);
  if (part != own) return "reduceScatterv";
  Vector at_root(comm.rank() == 0 ? whole.size() : 0);
  comm.gatherv(own, at_root, blocks, 0);
  return comm.rank() == 0 && at_root != expected ? "gatherv" : "";
}

} // namespace

TEST_CASE("typed calls do what the untyped ones do with the buffers' types and counts") {
  for (int size : {1, 2, 3, 5}) {
    auto ranks = Communicator::createAll(size, plainOptions());
    for (auto* part : {reductions, movements, uneven})
      REQUIRE(firstComplaint(
                  onRanks(ranks, [&](Communicator& comm) { return part(comm, size); })) == "");
  }
}

TEST_CASE("typed calls name a buffer of the wrong length and send nothing") {
  auto ranks = Communicator::createAll(2, plainOptions());
  Vector two(2), three(3);
  const auto refused = [](const char* text, const auto& call) {
    CHECK(says(caught(call), ErrorCode::invalid_argument, {text}));
  };
  Communicator& comm = ranks[0];
  refused("AllReduce: output has 3 elements, and must have 2",
          [&] { comm.allReduce(two, three, ReduceOp::sum); });
  refused("Allgather: output has 3 elements, and must have 4", [&] { comm.allGather(two, three); });
  refused("ReduceScatter: input has 3 elements, and must have 4",
          [&] { comm.reduceScatter(three, two, ReduceOp::sum); });
  refused("AlltoAll: input has 3 elements, and must have 2", [&] { comm.allToAll(three, three); });
  const std::vector<std::size_t> counts{1, 2}, offsets{0, 2};
  refused("Allgatherv: block 1 ends after the 3 elements of output", [&] {
    comm.allGatherv(std::span(two).first(1), three, {counts, offsets});
  });
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& one) -> std::string {
            Vector value{1};
            one.allReduce(value, ReduceOp::sum);
            return value[0] == 2 ? "" : "the communicator does not work any more";
          })) == "");
}

} // namespace rondo::test
