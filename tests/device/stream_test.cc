// Calls on streams: their order, captures, groups.
#include <numeric>

#include "device/device_ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr std::size_t kCount = 5000;

/// One rank's buffers: rank r brings r + 1 everywhere.
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

} // namespace

// Proves: a call sees what the stream did before it, and what the stream does next sees its result,
// while no thread waits in between.
TEST_CASE("device buffers: calls keep their place in the stream") {
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

// Proves: one thread may hold all ranks; none of their calls waits for another rank's to be made.
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

// Proves: a captured call is done at once and runs with every replay, between calls that are not
// captured; its plan outlives any number of other shapes.
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
  const auto replay = [&](float value) {
    for (std::size_t r = 0; r < 2; ++r) {
      all[r].input.assign(kCount, value);
      world.stream(world.all[r]).replay(graphs[r]);
    }
    for (std::size_t r = 0; r < 2; ++r) {
      world.stream(world.all[r]).synchronize();
      CHECK(all[r].all(2 * value));
    }
  };
  replay(1);
  replay(2);
  std::vector<CollectiveCase> others;
  for (std::size_t count = 1; count < 600; ++count) // more shapes than are kept
    others.push_back({.count = count, .type = DataType::int32});
  REQUIRE(world.run(others) == "");
  replay(3);
}

// Proves: after setStream() the calls on the old stream still run first, those before a captured
// one too.
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
    second[r].input.swap(first[r].output); // what the first call writes
    first[r].output.resize(kCount);
    works.push_back(world.all[r].allReduceAsync(second[r].input.data(), second[r].output.data(),
                                                kCount, DataType::float32, ReduceOp::sum));
  }
  for (Work& work : works) work.wait();
  for (const Sum& sum : second) CHECK(sum.all(6));
}

// Proves: a group's calls go to the streams that were set when they were made: each sees what its
// stream did before, and its stream sees the result.
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

// Proves: sends and receives of a group, which are one launch, follow what each of their streams
// holds, and are followed by all of them.
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

// Proves: communicators of the same ranks, and those that split() makes, do not meet in channels.
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
