// Failures of calls on devices, and arguments that are refused.
#include <algorithm>
#include <chrono>
#include <future>

#include "device/device_ranks.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

const CollectiveCase kCall{.count = 5000, .type = DataType::int32};

void add(Communicator& comm, std::vector<std::int32_t>& data) {
  comm.allReduce(data.data(), data.data(), data.size(), DataType::int32, ReduceOp::sum);
}

/// Exists until the streams are idle, because a launch that was given up may still use it.
struct Buffers {
  std::vector<std::int32_t> of[4];
  explicit Buffers(std::size_t count) {
    for (auto& one : of) one.resize(count);
  }
};

} // namespace

// Proves: an abort ends a waiting kernel at once, on ranks that wait and on those that call later.
// Another communicator on the same device is not affected.
TEST_CASE("device buffers: an abort ends waiting launches") {
  const HostDevices host;
  Buffers data(5000);
  Options patient = onDevice();
  patient.timeout = std::chrono::hours(1); // no deadline ends the launch
  DeviceRanks other(2, onDevice()), world(2, patient);
  std::jthread late([&] {
    std::this_thread::sleep_for(50ms);
    world.all[1].abort("enough");
  });
  const Caught waiting = caught([&] { add(world.all[0], data.of[0]); });
  CHECK(says(waiting, ErrorCode::aborted, {"enough"}));
  late.join();
  CHECK(says(caught([&] { add(world.all[1], data.of[1]); }), ErrorCode::aborted, {"enough"}));
  world.stream(world.all[0]).synchronize(); // the launch has ended
  CHECK(other.run({kCall}) == "");
}

// Proves: work after a failed call on its stream runs after the launches of other ranks that may
// write into the call's memory. A launch that begins after the failure writes nothing.
TEST_CASE("device buffers: a failed rank's stream waits for launches that may write its memory") {
  constexpr std::size_t kCount = 100'000;
  const HostDevices host;
  Buffers data(kCount);
  std::fill(data.of[0].begin(), data.of[0].end(), 1);
  std::fill(data.of[1].begin(), data.of[1].end(), 2);
  const std::vector<std::int32_t> untouched = data.of[0];
  Options patient = onDevice();
  patient.timeout = std::chrono::hours(1);
  DeviceRanks world(2, patient);
  const auto start = [&](std::size_t rank) {
    return world.all[rank].allReduceAsync(data.of[rank].data(), data.of[rank].data(), kCount,
                                          DataType::int32, ReduceOp::sum);
  };
  std::atomic<bool> hold{true}, passed{false};
  world.stream(world.all[1]).push([&] {
    while (hold) std::this_thread::sleep_for(1ms);
  });
  Work held = start(1), waiting = start(0);
  world.all[0].abort("enough");
  CHECK(says(caught([&] { waiting.wait(); }), ErrorCode::aborted, {"enough"}));
  world.stream(world.all[0]).push([&] { passed = true; });
  std::this_thread::sleep_for(100ms);
  CHECK_FALSE(passed);
  hold = false;
  world.stream(world.all[0]).synchronize();
  CHECK(passed);
  CHECK((data.of[0] == untouched));
  CHECK(says(caught([&] { held.wait(); }), ErrorCode::aborted, {"enough"}));
  world.stream(world.all[1]).synchronize();
}

// Proves: if a rank closes with a call in flight, all ranks name it as the cause, also a rank that
// waits for another one when its launch is aborted.
TEST_CASE("device buffers: a rank that closes with calls in flight is the only one named") {
  const HostDevices host;
  Buffers data(5000);
  HostStream streams[3];
  std::vector<std::future<Communicator>> coming;
  const Rendezvous meet = Rendezvous::inProcess(3);
  for (int r = 0; r < 3; ++r) {
    Options options = onDevice("", "ring"); // rank 2 waits for rank 1
    options.timeout = r == 0 ? std::chrono::milliseconds(300) : std::chrono::hours(1);
    coming.push_back(Communicator::createAsync(meet.as(r), options));
  }
  std::vector<Communicator> ranks;
  for (auto& one : coming) ranks.push_back(one.get());
  for (std::size_t r = 0; r < 3; ++r) ranks[r].setStream(streams[r].handle());
  std::atomic<bool> hold{true};
  streams[0].push([&] {
    while (hold) std::this_thread::sleep_for(1ms);
  });
  Caught errors[3];
  {
    std::jthread waits([&] { errors[2] = caught([&] { add(ranks[2], data.of[2]); }); });
    Work held = ranks[0].allReduceAsync(data.of[0].data(), data.of[0].data(), 5000, DataType::int32,
                                        ReduceOp::sum);
    { const Communicator gone = std::move(ranks[0]); }
    errors[0] = caught([&] { held.wait(); });
    hold = false; // the engine waits for its launch
  }
  errors[1] = caught([&] { add(ranks[1], data.of[1]); });
  for (const Caught& error : errors) {
    CHECK(says(error, ErrorCode::timeout, {"rank 0 closed", "AllReduce #1", "in flight"}));
    CHECK(error.culprit == 0);
  }
  for (HostStream& stream : streams) stream.synchronize();
}

// Proves: a missing rank is named on every rank, with the place where the kernel waited.
TEST_CASE("device buffers: a missing rank is a timeout that names it") {
  // one count for each protocol
  for (std::size_t count : {std::size_t{100}, std::size_t{100'000}}) {
    const HostDevices host({.blocks = 9});
    Buffers data(count);
    Options options = onDevice();
    options.timeout = 3s;
    // The host's deadline passes a second later. If the machine stops for that long, the host's
    // deadline is noticed first, and its error does not contain the place.
    for (int attempts = 3; attempts > 0; --attempts) {
      DeviceRanks world(3, options);
      std::vector<Caught> errors(3);
      {
        std::jthread one([&] { errors[0] = caught([&] { add(world.all[0], data.of[0]); }); });
        std::jthread two([&] { errors[1] = caught([&] { add(world.all[1], data.of[1]); }); });
      }
      if (attempts > 1 && says(errors[0], ErrorCode::timeout, {"on its stream"})) continue;
      for (int r : {0, 1})
        CHECK(says(errors[static_cast<std::size_t>(r)], ErrorCode::timeout,
                   {"AllReduce #1", "lane 0 step", "rank 2"}));
      CHECK(says(caught([&] { add(world.all[2], data.of[2]); }), ErrorCode::timeout, {"rank 2"}));
      break;
    }
  }
}

// Proves: if ranks share a device in one process, messages are lent, so they may be larger than a
// slot; otherwise they may not. The 32 copies of the plan have the same number of tiles each,
// within one.
TEST_CASE("device buffers: ranks that see each other's memory cut a call into fewer tiles") {
  constexpr std::size_t kCount = std::size_t{16} << 20; // 1 MiB of each half for one copy
  for (const int devices : {1, 2}) {
    const HostDevices host({.devices = devices});
    const auto data = std::make_unique_for_overwrite<std::int32_t[]>(kCount);
    Options options = onDevice();
    options.timeout = 300ms;
    options.channel_bytes = 256 << 10; // four slots of 64 KiB
    DeviceRanks world(2, options, devices);
    const Caught late = caught([&] {
      world.all[0].allReduce(data.get(), data.get(), kCount, DataType::int32, ReduceOp::sum);
    });
    CHECK(says(late, ErrorCode::timeout, {devices == 1 ? "of 64," : "of 544"}));
    world.stream(world.all[0]).synchronize();
  }
}

// Proves: a call also ends at the deadline if earlier work on its stream never ends.
TEST_CASE("device buffers: a blocked stream is a timeout") {
  const HostDevices host;
  Buffers data(100);
  Options options = onDevice();
  options.timeout = 200ms;
  DeviceRanks world(1, options);
  std::atomic<bool> hold{true};
  world.stream(world.all[0]).push([&] {
    while (hold) std::this_thread::sleep_for(1ms);
  });
  CHECK(says(caught([&] { add(world.all[0], data.of[0]); }), ErrorCode::timeout, {"AllReduce #1"}));
  hold = false;
  world.stream(world.all[0]).synchronize();
}

// Proves: a launch that the device refuses is an error on its rank and on the ranks that wait for
// it. The communicator stays failed; others are not affected.
TEST_CASE("device buffers: a refused launch is an error on every rank") {
  HostDevices host;
  Buffers data(5000);
  DeviceRanks world(2, onDevice()), other(2, onDevice());
  REQUIRE(world.run({kCall}) == "");
  Work first = world.all[0].allReduceAsync(data.of[0].data(), data.of[0].data(), 5000,
                                           DataType::int32, ReduceOp::sum);
  host.failNextLaunch();
  const Caught refused = caught([&] { add(world.all[1], data.of[1]); });
  CHECK(says(refused, ErrorCode::system, {"AllReduce #2", "was not launched"}));
  CHECK(says(caught([&] { first.wait(); }), ErrorCode::system, {"was not launched"}));
  CHECK(says(caught([&] { add(world.all[1], data.of[1]); }), ErrorCode::system, {}));
  world.stream(world.all[0]).synchronize();
  CHECK(other.run({kCall}) == "");
}

// Proves: no call of a group runs after a call whose launch was refused.
TEST_CASE("device buffers: a refused launch ends its group") {
  HostDevices host;
  Buffers data(100);
  DeviceRanks world(1, onDevice());
  REQUIRE(world.run({kCall}) == "");
  const auto before = host.launches();
  data.of[0][0] = 7;
  host.failNextLaunch();
  const Caught refused = caught([&] {
    Group group;
    add(world.all[0], data.of[1]);
    world.all[0].broadcast(data.of[0].data(), data.of[2].data(), 1, DataType::int32, 0);
    group.end();
  });
  CHECK(says(refused, ErrorCode::system, {"AllReduce #2", "was not launched"}));
  CHECK(host.launches() == before);
  CHECK(data.of[2][0] == 0);
}

// Proves: a communicator whose launch was refused waits, when it closes, for the copy that it had
// put on the stream before the launch, because that copy accesses its memory.
TEST_CASE("device buffers: closing a communicator waits for the copy of a refused launch") {
  HostDevices host;
  Buffers data(5000);
  std::atomic<bool> hold{true}, ended{false};
  DeviceRanks world(1, onDevice());
  HostStream& stream = world.stream(world.all[0]);
  stream.push([&] {
    while (hold) std::this_thread::sleep_for(1ms);
  });
  host.failNextLaunch();
  CHECK(says(caught([&] { add(world.all[0], data.of[0]); }), ErrorCode::system,
             {"was not launched"}));
  {
    const std::jthread ends([&] {
      world.all.clear();
      ended = true;
    });
    std::this_thread::sleep_for(200ms);
    CHECK(!ended);
    hold = false;
  }
  stream.synchronize();
}

// Proves: ranks in different calls get a mismatch error, on every rank.
TEST_CASE("device buffers: different calls are a mismatch on every rank") {
  const HostDevices host;
  Buffers data(5000);
  Options options = onDevice();
  DeviceRanks world(2, options);
  std::vector<Caught> errors(2);
  {
    std::jthread one([&] { errors[0] = caught([&] { add(world.all[0], data.of[0]); }); });
    errors[1] = caught([&] {
      world.all[1].allReduce(data.of[1].data(), data.of[1].data(), 5000, DataType::int32,
                             ReduceOp::max);
    });
  }
  for (const Caught& error : errors)
    CHECK(says(error, ErrorCode::mismatch, {"sum of 5000 int32", "max of 5000 int32"}));
}

// Proves: if ranks differ in the count, the error names both counts.
TEST_CASE("device buffers: different counts are a mismatch that names both") {
  const HostDevices host;
  Buffers data(70'000);
  data.of[1].resize(60'000);
  DeviceRanks world(2, onDevice());
  const auto errors = onRanks(world.all, [&](Communicator& comm) -> std::string {
    add(comm, data.of[comm.rank()]);
    return {};
  });
  for (const std::string& error : errors) {
    INFO(error);
    CHECK(error.find("sum of 70000 int32") != std::string::npos);
    CHECK(error.find("sum of 60000 int32") != std::string::npos);
  }
}

// Proves: the next call reports a failed replay.
TEST_CASE("device buffers: a failed replay is an error of the next call") {
  const HostDevices host;
  Buffers data(5000);
  Options options = onDevice();
  options.timeout = 200ms;
  DeviceRanks world(2, options);
  HostStream& stream = world.stream(world.all[0]);
  stream.beginCapture();
  add(world.all[0], data.of[0]);
  const auto graph = stream.endCapture();
  stream.replay(graph); // rank 1 replays nothing
  stream.synchronize();
  CHECK(says(caught([&] { add(world.all[0], data.of[0]); }), ErrorCode::timeout, {"rank 1"}));
}

// Proves: a plan with more lanes than a rank's share of the device is refused before a launch, and
// the communicator stays usable with plans that fit.
TEST_CASE("device buffers: ranks that do not fit on their device are refused") {
  HostDevices host({.blocks = 3});
  Buffers data(200'000);
  DeviceRanks world(3, onDevice("", "double_tree;broadcast:chain"));
  const auto launches = host.launches();
  for (std::size_t r = 0; r < 3; ++r)
    CHECK(says(caught([&] { add(world.all[r], data.of[r]); }), ErrorCode::unsupported,
               {"holds 3 for 3 ranks", "fewer ranks per GPU"}));
  CHECK(host.launches() == launches);
  CHECK(world.run({{Collective::broadcast, 100, DataType::int32}}) == "");
}

// Proves: wrong arguments are refused by name and change nothing.
TEST_CASE("device buffers: wrong arguments are refused, and the communicator stays usable") {
  HostDevices host;
  Buffers data(100);
  DeviceRanks world(2, onDevice());
  Communicator& comm = world.all[0];
  std::int32_t* at = data.of[0].data();
  host.hide(at);
  CHECK(says(caught([&] { add(comm, data.of[0]); }), ErrorCode::invalid_argument,
             {"input is not memory that the device"}));
  // A buffer that the call does not use may be anywhere.
  CHECK(firstComplaint(onRanks(world.all, [&](Communicator& rank) -> std::string {
          const bool root = rank.rank() == 1;
          rank.reduce(data.of[2 + rank.rank()].data(), root ? data.of[1].data() : at, 100,
                      DataType::int32, ReduceOp::sum, 1);
          return {};
        })) == "");
  comm.setStream(Stream());
  CHECK(says(caught([&] { add(comm, data.of[1]); }), ErrorCode::invalid_argument,
             {"rank 1 of this process", "setStream"}));
  comm.setStream(world.stream(comm).handle());
  CHECK(says(caught([&] { comm.allocate(100); }), ErrorCode::unsupported, {"allocate"}));
  CHECK(says(caught([&] { comm.registerBuffer(at, 4096); }), ErrorCode::unsupported,
             {"registerBuffer"}));
  CHECK(world.run({kCall}) == "");

  auto plain = Communicator::createAll(1, plainOptions());
  CHECK(says(caught([&] { plain[0].setStream(Stream()); }), ErrorCode::unsupported,
             {"setStream", "host memory"}));
}

namespace {

/// What each rank's create() throws if rank r names device numbers[r].
std::vector<Caught> created(const std::vector<int>& numbers) {
  const Rendezvous meet = Rendezvous::inProcess(static_cast<int>(numbers.size()));
  std::vector<Caught> errors(numbers.size());
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < numbers.size(); ++r)
    threads.emplace_back([&, r] {
      Options options = plainOptions();
      options.device = numbers[r];
      errors[r] = caught([&] { Communicator::create(meet.as(static_cast<int>(r)), options); });
    });
  threads.clear();
  return errors;
}

} // namespace

// Proves: if some ranks have no device, or cannot open theirs, every rank gets an error.
TEST_CASE("device buffers: every rank gets an error if some ranks have no device") {
  {
    const HostDevices host({.devices = 2});
    for (const Caught& error : created({0, -1, 1, -1}))
      CHECK(says(error, ErrorCode::mismatch, {"(0, 2)", "(1, 3)", "RONDO_DEVICE"}));
    const auto errors = created({0, 7});
    CHECK(says(errors[0], ErrorCode::init_failed, {"rank 1", "device 7"}));
    CHECK(errors[0].culprit == 1);
    CHECK(says(errors[1], ErrorCode::unsupported, {"device 7"}));
  }
  // Without the emulation there is no device 1023, with or without a GPU. The text is one line.
  const Caught missing = created({1023})[0];
  CHECK(says(missing, ErrorCode::unsupported, {"device 1023: "}));
  CHECK(missing.text.find('\n') == std::string::npos);
}

// Proves: both ranks give up a link that loses data, and use the next one.
TEST_CASE("device buffers: a link that loses data is not used") {
  const HostDevices host({.devices = 2, .lose_writes = true});
  // Ranks 0 and 2 share a device; writes to the rank's own device arrive.
  DeviceRanks world(3, onDevice("nvlink,pcie"), 3 - 1);
  CHECK(world.all[0].transportTo(2) == "nvlink");
  CHECK(world.all[2].transportTo(0) == "nvlink");
  CHECK(world.all[0].transportTo(1) == "pcie");
  CHECK(world.all[1].transportTo(0) == "pcie");
  CHECK(world.run({kCall}) == "");
}

// Proves: devices without any connection are an error that says so, not a hang.
TEST_CASE("device buffers: ranks that no transport connects get an error") {
  const HostDevices host({.devices = 2, .see_each_other = false});
  CHECK(says(caught([&] { DeviceRanks(2, onDevice("nvlink"), 2); }), ErrorCode::init_failed,
             {"no transport"}));
  DeviceRanks world(2, onDevice(), 2);
  CHECK(world.all[0].transportTo(1) == "pcie");
}

} // namespace rondo::test
