// Calls on streams: their order, captures, groups.
#include <algorithm>
#include <atomic>
#include <numeric>

#include "device/device_ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr std::size_t kCount = 5000;

/// One rank's buffers: all inputs of rank r are r + 1.
struct Sum {
  std::vector<float> input, output;
  explicit Sum(int rank) : input(kCount, static_cast<float>(rank + 1)), output(kCount, -1) {}
  Work start(Communicator& comm) {
    return comm.allReduceAsync(input.data(), output.data(), kCount, DataType::float32,
                               ReduceOp::sum);
  }
  bool all(float value) const {
    return std::all_of(output.begin(), output.end(), [value](float x) { return x == value; });
  }
};

std::vector<Sum> sums(int ranks) {
  std::vector<Sum> all;
  for (int r = 0; r < ranks; ++r) all.emplace_back(r);
  return all;
}

/// Replays every rank's graph, with all inputs set to `value`.
void replay(DeviceRanks& world, const std::vector<HostStream::Graph>& graphs, std::vector<Sum>& all,
            float value) {
  for (std::size_t r = 0; r < all.size(); ++r) {
    all[r].input.assign(kCount, value);
    world.stream(world.all[r]).replay(graphs[r]);
  }
  for (std::size_t r = 0; r < all.size(); ++r) {
    world.stream(world.all[r]).synchronize();
    CHECK(all[r].all(static_cast<float>(all.size()) * value));
  }
}

/// More shapes than the plan cache keeps, and than the memory for programs holds.
std::vector<CollectiveCase> manyShapes() {
  std::vector<CollectiveCase> cases;
  for (std::size_t count = 1; count < 2500; ++count)
    cases.push_back({.count = count, .type = DataType::int32});
  return cases;
}

} // namespace

// Proves: a call sees the results of earlier work on the stream, and later work sees the call's
// result, while no thread waits in between.
TEST_CASE("device buffers: calls run in the stream's order") {
  const HostDevices host;
  DeviceRanks world(3, onDevice());
  auto all = sums(3);
  std::vector<std::vector<float>> seen(3);
  std::vector<Work> works;
  for (std::size_t r = 0; r < 3; ++r) {
    HostStream& stream = world.stream(world.all[r]);
    stream.push([&, r] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      all[r].input.assign(kCount, 10);
    });
    works.push_back(all[r].start(world.all[r]));
    stream.push([&, r] { seen[r] = all[r].output; });
  }
  for (std::size_t r = 0; r < 3; ++r) {
    works[r].wait();
    CHECK(all[r].all(30));
    world.stream(world.all[r]).synchronize();
    CHECK(seen[r] == all[r].output);
  }
}

// Proves: one thread can run all ranks: none of their calls waits until another rank makes its
// call.
TEST_CASE("device buffers: one thread starts the calls of all ranks, in a group or one by one") {
  const HostDevices host;
  DeviceRanks world(4, onDevice());
  auto all = sums(4);
  Group group;
  for (std::size_t r = 0; r < 4; ++r)
    world.all[r].allReduce(all[r].input.data(), all[r].output.data(), kCount, DataType::float32,
                           ReduceOp::sum);
  group.end();
  for (const Sum& sum : all) CHECK(sum.all(10));
  std::vector<Work> works;
  for (std::size_t r = 0; r < 4; ++r) works.push_back(all[r].start(world.all[r]));
  for (Work& work : works) work.wait();
  for (const Sum& sum : all) CHECK(sum.all(10));
}

// Proves: a captured call is complete at once and runs at every replay, between calls that are not
// captured. Its plan stays valid for any number of other shapes.
TEST_CASE("device buffers: captured calls run when they are replayed") {
  const HostDevices host;
  DeviceRanks world(2, onDevice());
  auto all = sums(2);
  std::vector<HostStream::Graph> graphs;
  for (std::size_t r = 0; r < 2; ++r) {
    HostStream& stream = world.stream(world.all[r]);
    stream.beginCapture();
    Work work = all[r].start(world.all[r]);
    CHECK(work.test());
    work.wait();
    graphs.push_back(stream.endCapture());
    CHECK(all[r].all(-1)); // nothing has run
  }
  for (const float value : {1.0f, 2.0f, 3.0f}) {
    replay(world, graphs, all, value);
    if (value == 2) REQUIRE(world.run(manyShapes()) == "");
  }
}

// Proves: a call can be captured while another call of its shape is in flight. That call completes,
// the graph keeps the program, and later calls can use it too.
TEST_CASE("device buffers: a call is captured after one of the same shape") {
  const HostDevices host;
  DeviceRanks world(2, onDevice());
  auto all = sums(2), before = sums(2);
  std::vector<HostStream::Graph> graphs;
  std::vector<Work> works;
  for (std::size_t r = 0; r < 2; ++r) {
    HostStream& stream = world.stream(world.all[r]);
    works.push_back(before[r].start(world.all[r]));
    stream.beginCapture();
    works.push_back(all[r].start(world.all[r]));
    graphs.push_back(stream.endCapture());
  }
  const auto settle = [&] {
    for (Work& work : works) work.wait();
    for (const Sum& sum : before) CHECK(sum.all(3));
  };
  settle();
  for (const Sum& sum : all) CHECK(sum.all(-1));
  replay(world, graphs, all, 1);
  REQUIRE(world.run(manyShapes()) == "");
  replay(world, graphs, all, 2);
  works.clear();
  for (std::size_t r = 0; r < 2; ++r) {
    before[r].output.assign(kCount, -1);
    works.push_back(before[r].start(world.all[r]));
  }
  settle();
}

// Proves: calls whose programs do not fit next to those in flight start without waiting for these.
// Each result is right, and the extra device memory is freed.
TEST_CASE("device buffers: more programs in flight than there is room for") {
  constexpr std::size_t kCalls = 2500, kLeast = 100;
  const HostDevices host;
  DeviceRanks world(2, onDevice());
  REQUIRE(world.run({{.count = kLeast + kCalls, .type = DataType::float32}}) == "");
  const auto before = host.allocations();
  std::vector<float> input(kLeast + 2 * kCalls);
  std::iota(input.begin(), input.end(), 0.0f);
  std::vector<std::vector<float>> output(2, std::vector<float>(kLeast + kCalls));
  std::vector<Work> works;
  std::atomic<std::size_t> right{0};
  for (std::size_t r = 0; r < 2; ++r) // all calls of one rank, then all of the other
    for (std::size_t call = 0; call < kCalls; ++call) {
      const std::size_t count = kLeast + call;
      works.push_back(world.all[r].allReduceAsync(input.data() + call, output[r].data(), count,
                                                  DataType::float32, ReduceOp::sum));
      world.stream(world.all[r]).push([&right, &input, &out = output[r], call, count] {
        right += std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count),
                            input.begin() + static_cast<std::ptrdiff_t>(call),
                            [](float sum, float one) { return sum == 2 * one; });
      });
    }
  CHECK(host.allocations() > before);
  for (Work& work : works) work.wait();
  for (Communicator& comm : world.all) world.stream(comm).synchronize();
  CHECK(right == 2 * kCalls);
  CHECK(host.allocations() == before);
}

// Proves: launches share the memory for partial results, and a launch that needs more does not
// affect those in flight.
TEST_CASE("device buffers: scratch grows under calls in flight") {
  constexpr std::size_t kRanks = 3, kLargest = 20'000;
  const HostDevices host;
  DeviceRanks world(kRanks, onDevice("", "bruck"));
  const std::vector<std::size_t> counts{10, 100, 1000, kLargest, 1000};
  std::vector<std::vector<float>> inputs;
  std::vector<std::vector<std::vector<float>>> outputs(kRanks);
  std::vector<Work> works;
  for (std::size_t r = 0; r < kRanks; ++r) {
    inputs.emplace_back(kLargest, static_cast<float>(r + 1));
    for (const std::size_t count : counts) {
      std::vector<float>& output = outputs[r].emplace_back(kRanks * count);
      works.push_back(
          world.all[r].allGatherAsync(inputs[r].data(), output.data(), count, DataType::float32));
    }
  }
  const auto whole = [&] { return world.all[0].memory().scratch; };
  const std::size_t scratch = whole();
  CHECK(scratch > 0);
  for (Work& work : works) work.wait();
  for (const auto& of_rank : outputs)
    for (const std::vector<float>& output : of_rank)
      for (std::size_t i = 0; i < output.size(); ++i)
        REQUIRE(output[i] == static_cast<float>(i / (output.size() / kRanks) + 1));
  REQUIRE(world.run({{.collective = Collective::allgather, .count = 500}}) == "");
  CHECK(whole() == scratch);
}

// Proves: after setStream(), the calls on the old stream still run first, also before a captured
// call.
TEST_CASE("device buffers: calls on a new stream follow those on the old one") {
  const HostDevices host;
  HostStream other[2]; // outlive the communicators
  DeviceRanks world(2, onDevice());
  auto first = sums(2), second = sums(2);
  std::vector<Work> works;
  for (std::size_t r = 0; r < 2; ++r) {
    world.stream(world.all[r]).push([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    });
    works.push_back(first[r].start(world.all[r]));
    world.stream(world.all[r]).beginCapture();
    works.push_back(first[r].start(world.all[r]));
    world.stream(world.all[r]).endCapture();
    world.all[r].setStream(other[r].handle());
    second[r].input.swap(first[r].output); // the output of the first call
    first[r].output.resize(kCount);
    works.push_back(world.all[r].allReduceAsync(second[r].input.data(), second[r].output.data(),
                                                kCount, DataType::float32, ReduceOp::sum));
  }
  for (Work& work : works) work.wait();
  for (const Sum& sum : second) CHECK(sum.all(6));
}

// Proves: a group's calls go to the streams that were set when they were made: each sees the
// earlier work of its stream, and the stream's later work sees the result.
TEST_CASE("device buffers: a group's calls keep their streams") {
  const HostDevices host;
  HostStream other[2]; // outlive the communicators
  DeviceRanks world(2, onDevice());
  auto first = sums(2), second = sums(2);
  std::vector<std::vector<float>> seen(2), received(2, std::vector<float>(kCount));
  const auto late = [](std::vector<float>& input, float value) {
    return [&input, value] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      input.assign(kCount, value);
    };
  };
  Group group;
  for (std::size_t r = 0; r < 2; ++r) {
    Communicator& comm = world.all[r];
    world.stream(comm).push(late(first[r].input, 10));
    other[r].push(late(second[r].input, 20));
    first[r].start(comm);
    const int peer = 1 - static_cast<int>(r);
    comm.send(first[r].input.data(), kCount, DataType::float32, peer);
    comm.setStream(other[r].handle());
    comm.recv(received[r].data(), kCount, DataType::float32, peer);
    second[r].start(comm);
    comm.setStream(world.stream(comm).handle());
  }
  group.start();
  for (std::size_t r = 0; r < 2; ++r) {
    world.stream(world.all[r]).push([&, r] { seen[r] = first[r].output; });
    other[r].synchronize();
    CHECK(second[r].all(40));
    CHECK(received[r][kCount - 1] == 10);
    world.stream(world.all[r]).synchronize();
    CHECK(seen[r] == std::vector<float>(kCount, 20));
  }
}

// Proves: the sends and receives of a group are one launch, which runs after the earlier work of
// each of their streams and before the later work of all of them.
TEST_CASE("device buffers: a group's messages keep their streams") {
  const HostDevices host;
  HostStream other[2]; // outlive the communicators
  DeviceRanks world(2, onDevice());
  std::vector<std::vector<float>> input(2, std::vector<float>(kCount)), received = input,
                                                                        seen = input;
  Group group;
  for (std::size_t r = 0; r < 2; ++r) {
    Communicator& comm = world.all[r];
    const int peer = 1 - static_cast<int>(r);
    world.stream(comm).push([&, r] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      input[r].assign(kCount, 10);
    });
    comm.send(input[r].data(), kCount, DataType::float32, peer);
    comm.setStream(other[r].handle());
    comm.recv(received[r].data(), kCount, DataType::float32, peer);
    comm.setStream(world.stream(comm).handle());
  }
  group.start();
  for (std::size_t r = 0; r < 2; ++r)
    world.stream(world.all[r]).push([&, r] { seen[r] = received[r]; });
  for (std::size_t r = 0; r < 2; ++r) {
    other[r].synchronize();
    CHECK(received[r] == std::vector<float>(kCount, 10));
    world.stream(world.all[r]).synchronize();
    CHECK(seen[r] == std::vector<float>(kCount, 10));
  }
}

// Proves: communicators of the same ranks, and those that split() makes, use separate channels.
TEST_CASE("device buffers: several communicators share the devices") {
  const HostDevices host({.devices = 2});
  DeviceRanks one(4, onDevice(), 2), two(4, onDevice("pcie"), 2);
  HostStream streams[4];
  const std::vector<CollectiveCase> cases = {
      {.count = 1000, .type = DataType::int32},
      {.collective = Collective::alltoall, .count = 3000, .type = DataType::int64}};
  REQUIRE(firstComplaint(onRanks(one.all, [&](Communicator& comm) -> std::string {
            auto half = comm.split(comm.rank() % 2, 0);
            half->setStream(streams[comm.rank()].handle());
            for (int round = 0; round < 3; ++round)
              for (const CollectiveCase& call : cases)
                for (Communicator* on :
                     {&comm, &two.all[static_cast<std::size_t>(comm.rank())], &*half})
                  if (std::string wrong = call.run(*on); !wrong.empty()) return wrong;
            return {};
          })) == "");
  CHECK(one.all[0].transportTo(1) == "nvlink");
  CHECK(two.all[0].transportTo(1) == "pcie");
}

} // namespace rondo::test
