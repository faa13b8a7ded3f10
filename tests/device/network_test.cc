// Devices that only a network connects: every message goes from ring to ring through the proxies
// and TCP.
#include <chrono>

#include "device/device_cases.h"
#include "device/device_ranks.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

std::vector<std::vector<float>> filled(std::size_t ranks, std::size_t count) {
  std::vector<std::vector<float>> all;
  for (std::size_t r = 0; r < ranks; ++r) all.emplace_back(count, static_cast<float>(r + 1));
  return all;
}
void add(Communicator& comm, std::vector<float>& data) {
  comm.allReduce(data.data(), data.data(), data.size(), DataType::float32, ReduceOp::sum);
}

} // namespace

// Proves: every collective gives the right result if all messages go over TCP and the rings are
// full most of the time. Some shapes are called alternately, so their plans use the same channels.
TEST_CASE("device buffers over tcp: every collective gives the right result") {
  for (int ranks : kWholeGrid ? std::vector<int>{1, 2, 3, 4} : std::vector<int>{2, 3}) {
    const HostDevices host({.devices = ranks, .see_each_other = false});
    DeviceRanks world(ranks, smallSlots("tcp"), ranks);
    INFO(ranks << " ranks");
    if (ranks > 1) CHECK(world.all[0].transportTo(1) == "tcp");
    REQUIRE(world.run(casesOf(nullptr, ranks)) == "");
    const CollectiveCase one{.count = 3001, .type = DataType::bfloat16};
    const CollectiveCase other{Collective::allgather, 77, DataType::float64};
    REQUIRE(world.run({one, other, one, other, one}) == "");
  }
}

// Proves: every algorithm's plan ends with the right result in one copy over TCP.
TEST_CASE("device buffers over tcp: every algorithm gives the right result") {
  const HostDevices host;
  for (const plan::Algorithm* algorithm : plan::algorithms()) {
    const auto cases = casesOf(algorithm, 3);
    if (cases.empty()) continue;
    DeviceRanks world(3, smallSlots("tcp", std::string(algorithm->name)));
    INFO(algorithm->name);
    REQUIRE(world.run(cases) == "");
  }
}

// Proves: types of every size, and large messages, arrive complete in slots of the default size,
// over several sockets. Blocks of several threads publish what the relay sends.
TEST_CASE("device buffers over tcp: types and sizes") {
  const HostDevices host({.threads = 3});
  Options options = onDevice("tcp");
  options.tcp_sockets = 3;
  DeviceRanks world(2, options);
  std::vector<CollectiveCase> cases;
  for (DataType type : {DataType::uint8, DataType::float16, DataType::float32, DataType::int64})
    for (std::size_t count : {std::size_t{5}, std::size_t{40'003}})
      cases.push_back({Collective::allreduce, count, type, ReduceOp::sum, 0, count == 5});
  REQUIRE(world.run(cases) == "");
}

// Proves: ranks that see each other's memory use it, and the others use TCP, in one call.
TEST_CASE("device buffers over tcp: some links use memory and some use TCP") {
  const HostDevices host({.devices = 2, .see_each_other = false});
  DeviceRanks world(4, smallSlots("nvlink,tcp"), 2);
  CHECK(world.all[0].transportTo(2) == "nvlink");
  CHECK(world.all[3].transportTo(1) == "nvlink");
  CHECK(world.all[0].transportTo(1) == "tcp");
  CHECK(world.all[2].transportTo(3) == "tcp");
  REQUIRE(world.run(casesOf(nullptr, 4)) == "");
}

// Proves: communicators that split() makes have proxies and channels of their own.
TEST_CASE("device buffers over tcp: several communicators share the devices") {
  const HostDevices host({.devices = 2});
  HostStream streams[4]; // outlive the communicators
  DeviceRanks world(4, smallSlots("tcp"), 2);
  const CollectiveCase call{.count = 3001, .type = DataType::int32};
  REQUIRE(firstComplaint(onRanks(world.all, [&](Communicator& comm) -> std::string {
            auto half = comm.split(comm.rank() % 2, 0);
            half->setStream(streams[comm.rank()].handle());
            for (int round = 0; round < 3; ++round)
              for (Communicator* on : {&comm, &*half})
                if (std::string wrong = call.run(*on); !wrong.empty()) return wrong;
            return {};
          })) == "");
}

// Proves: messages of graph replays are sent although no host thread starts them, right after other
// messages and after pauses in which the proxy sleeps.
TEST_CASE("device buffers over tcp: captured calls run when they are replayed") {
  const HostDevices host;
  DeviceRanks world(3, smallSlots("tcp"));
  auto data = filled(3, 5000);
  std::vector<HostStream::Graph> graphs;
  for (std::size_t r = 0; r < 3; ++r) { // one thread: no call waits for a connection
    HostStream& stream = world.stream(world.all[r]);
    stream.beginCapture();
    add(world.all[r], data[r]);
    graphs.push_back(stream.endCapture());
  }
  float due = 6;
  for (int replay = 0; replay < 5; ++replay, due *= 3) {
    for (std::size_t r = 0; r < 3; ++r) world.stream(world.all[r]).replay(graphs[r]);
    for (std::size_t r = 0; r < 3; ++r) world.stream(world.all[r]).synchronize();
    for (const auto& one : data) CHECK(one == std::vector<float>(5000, due));
    if (replay % 2 == 1) std::this_thread::sleep_for(20ms);
  }
  CHECK(world.run({{.count = 5000}}) == "");
}

// Proves: a rank that has sent may close: messages that its kernel has published still arrive.
TEST_CASE("device buffers over tcp: messages outlive the communicator that sent them") {
  const HostDevices host;
  DeviceRanks world(3, smallSlots("tcp", "linear"));
  auto data = filled(3, 20'000);
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < 3; ++r)
    threads.emplace_back([&, r, comm = std::move(world.all[r])]() mutable {
      if (r > 0) std::this_thread::sleep_for(100ms);
      comm.broadcast(data[r].data(), data[r].data(), 20'000, DataType::float32, 0);
      [[maybe_unused]] const Communicator ends = std::move(comm);
    });
  threads.clear();
  for (const auto& one : data) CHECK(one == std::vector<float>(20'000, 1));
}

// Proves: repeated calls allocate nothing, the rings are counted, and all memory is freed.
TEST_CASE("device buffers over tcp: memory is allocated once and freed") {
  const HostDevices host;
  {
    DeviceRanks world(3, onDevice("tcp"));
    const CollectiveCase call{.count = 10'000, .type = DataType::float32};
    REQUIRE(world.run({call}) == "");
    const auto before = host.allocations();
    const MemoryUse use = world.all[0].memory();
    REQUIRE(world.run({call, call, call}) == "");
    CHECK(host.allocations() == before);
    CHECK(use.channels > 0);
    CHECK(use.slots >= 2 * use.channels * (512 << 10)); // one ring for each end of each channel
  }
  CHECK(host.allocations() == 0);
}

// Proves: different calls are a mismatch on both ranks, because the labels are sent with the
// messages.
TEST_CASE("device buffers over tcp: different calls are a mismatch on every rank") {
  const HostDevices host;
  auto data = filled(2, 5000);
  DeviceRanks world(2, onDevice("tcp"));
  std::vector<Caught> errors(2);
  {
    std::jthread one([&] { errors[0] = caught([&] { add(world.all[0], data[0]); }); });
    errors[1] = caught([&] {
      world.all[1].allReduce(data[1].data(), data[1].data(), 5000, DataType::float32,
                             ReduceOp::max);
    });
  }
  for (const Caught& error : errors)
    CHECK(says(error, ErrorCode::mismatch, {"sum of 5000 float", "max of 5000 float"}));
}

// Proves: a missing rank, to which there is not even a connection, is a timeout that names it.
TEST_CASE("device buffers over tcp: a missing rank is a timeout that names it") {
  const HostDevices host;
  auto data = filled(2, 5000);
  Options options = onDevice("tcp");
  options.timeout = 1s;
  DeviceRanks world(2, options);
  CHECK(says(caught([&] { add(world.all[0], data[0]); }), ErrorCode::timeout,
             {"AllReduce #1", "lane 0 step", "rank 1"}));
  CHECK(says(caught([&] { add(world.all[1], data[1]); }), ErrorCode::timeout, {"rank 1"}));
}

// Proves: a rank that closes while others still need its messages is named at once, before the
// deadline, although it closed in an orderly way.
TEST_CASE("device buffers over tcp: a rank that closes too early is named") {
  const HostDevices host;
  auto data = filled(2, 5000);
  DeviceRanks world(2, onDevice("tcp"));
  REQUIRE(world.run({{.count = 5000}}) == "");
  const auto began = std::chrono::steady_clock::now();
  std::jthread leaves([&, comm = std::move(world.all[1])] { std::this_thread::sleep_for(50ms); });
  const Caught error = caught([&] { add(world.all[0], data[0]); });
  CHECK(says(error, ErrorCode::peer_dead, {"AllReduce #2", "rank 1"}));
  CHECK(error.culprit == 1);
  CHECK(std::chrono::steady_clock::now() - began < 30s);
}

// Proves: an abort ends kernels and proxies on every rank; another communicator is not affected.
TEST_CASE("device buffers over tcp: an abort ends waiting launches") {
  const HostDevices host;
  auto data = filled(2, 5000);
  Options patient = onDevice("tcp");
  patient.timeout = 1h;
  DeviceRanks other(2, onDevice("tcp")), world(2, patient);
  std::jthread late([&] {
    std::this_thread::sleep_for(50ms);
    world.all[1].abort("enough");
  });
  CHECK(says(caught([&] { add(world.all[0], data[0]); }), ErrorCode::aborted, {"enough"}));
  late.join();
  world.stream(world.all[0]).synchronize();
  CHECK(other.run({{.count = 5000}}) == "");
}

} // namespace rondo::test
