// Pre-multiplied sums whose factor is in device memory.
#include <cstdint>
#include <vector>

#include "device/device_ranks.h"
#include "support/caught.h"
#include "support/test.h"
#include "tests/kernels/reference.h"

namespace rondo::test {
namespace {

using Bytes = std::vector<std::byte>;

/// Small numbers whose bits are valid elements of every type.
Bytes elements(std::size_t bytes, int rank) {
  Bytes all(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    all[i] = static_cast<std::byte>((i * 7 + static_cast<std::size_t>(rank) * 13) % 50);
  return all;
}

} // namespace

// Proves: the factor is an element of the call's type, for every type, with packets and with slots,
// in all collectives that reduce. The results equal those of the same factor given as a number.
TEST_CASE("device buffers: factors in the device's memory", "[sums]") {
  const HostDevices host;
  for (int ranks : kWholeGrid ? kRankCounts : std::vector<int>{3}) {
    DeviceRanks world(ranks, onDevice());
    for (DataType type : kDataTypes)
      for (std::size_t count : {std::size_t{5}, std::size_t{12'001}}) {
        const std::uint64_t factor = elementOf(type, 3);
        INFO(ranks << " ranks, " << count << " " << name(type));
        REQUIRE(firstComplaint(onRanks(world.all, [&](Communicator& comm) -> std::string {
                  const auto all = count * static_cast<std::size_t>(ranks);
                  const Bytes input = elements(all * sizeOf(type), comm.rank());
                  Bytes got(input.size()), expected(input.size());
                  const auto at = ReduceOp::preMulSumAt(&factor), by = ReduceOp::preMulSum(3);
                  comm.allReduce(input.data(), got.data(), all, type, at);
                  comm.allReduce(input.data(), expected.data(), all, type, by);
                  if (got != expected) return "allreduce";
                  comm.reduceScatter(input.data(), got.data(), count, type, at);
                  comm.reduceScatter(input.data(), expected.data(), count, type, by);
                  if (got != expected) return "reducescatter";
                  comm.reduce(input.data(), got.data(), all, type, at, ranks - 1);
                  comm.reduce(input.data(), expected.data(), all, type, by, ranks - 1);
                  return got == expected ? "" : "reduce";
                })) == "");
      }
  }
}

// Proves: the factor is read when the stream reaches the call, and read again by every replay of a
// captured call. A call of the same shape with a factor given as a number does not read it.
TEST_CASE("device buffers: a factor in memory is read in the stream's order") {
  const HostDevices host;
  DeviceRanks world(1, onDevice());
  Communicator& comm = world.all[0];
  HostStream& stream = world.stream(comm);
  float factor = 2;
  const std::vector<float> input(100, 1);
  std::vector<float> output(100);
  const auto call = [&](ReduceOp op) {
    return comm.allReduceAsync(input.data(), output.data(), 100, DataType::float32, op);
  };
  stream.beginCapture();
  call(ReduceOp::preMulSumAt(&factor)).wait();
  const HostStream::Graph graph = stream.endCapture();
  for (const float value : {2.0F, 5.0F, 1.0F}) {
    factor = -1;
    stream.push([&] { factor = value; });
    stream.replay(graph);
    stream.synchronize();
    CHECK(output == std::vector<float>(100, value));
  }
  call(ReduceOp::preMulSum(7)).wait();
  CHECK(output == std::vector<float>(100, 7));
}

// Proves: if the factor cannot be read, the call is refused before anything is sent, and the
// communicator stays usable.
TEST_CASE("device buffers: a factor that cannot be read is refused") {
  HostDevices host;
  float factor = 2;
  std::vector<float> data(10, 1);
  const auto sum = [&](Communicator& comm) {
    comm.allReduce(data.data(), data.data(), 10, DataType::float32, ReduceOp::preMulSumAt(&factor));
  };
  DeviceRanks world(1, onDevice());
  host.hide(&factor);
  CHECK(says(caught([&] { sum(world.all[0]); }), ErrorCode::invalid_argument,
             {"the operator's factor", "not in memory that the device"}));
  host.hide(nullptr);
  sum(world.all[0]);
  CHECK(data == std::vector<float>(10, 2));
  auto plain = Communicator::createAll(1, plainOptions());
  CHECK(says(caught([&] { sum(plain[0]); }), ErrorCode::invalid_argument,
             {"in a device's memory", "this communicator is on none"}));
  plain[0].barrier();
}

} // namespace rondo::test
