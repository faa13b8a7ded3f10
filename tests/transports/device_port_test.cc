// The properties that the engine relies on, for every transport between devices: both ends have the
// same memory.
#include <cstring>

#include "harness.h"
#include "rondo/error.h"
#include "support/host_devices.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace transport;

constexpr std::size_t kInbox = 8192, kCredit = 256;

/// Ranks of this process, each on its own device. With a board they know that they share a process.
/// Without one they connect like processes.
struct DeviceWorld {
  DeviceWorld(const Kind& kind, int ranks, bool board_too, int devices,
              std::uint64_t communicator = 7) {
    const auto board = board_too ? std::make_shared<base::Board>() : nullptr;
    const net::Secret secret = net::Secret::random();
    for (int rank = 0; rank < ranks; ++rank) {
      Context context = makeContext(rank, ranks, communicator, {}, secret, board);
      context.options.init_timeout = std::chrono::milliseconds(20'000);
      context.on = {device::openDevice(rank % devices), {1024, 4}, kInbox, kCredit};
      all.push_back(kind.make(context));
    }
  }
  std::unique_ptr<PendingPort> open(int rank, const ChannelId& id) {
    const int peer = rank == id.src ? id.dst : id.src;
    return at(rank).open(id, at(peer).address());
  }
  Transport& at(int rank) { return *all[static_cast<std::size_t>(rank)]; }

  std::vector<std::unique_ptr<Transport>> all;
};

struct Ends {
  std::unique_ptr<Port> out, in;
};

Ends connect(DeviceWorld& world, const ChannelId& id) {
  const auto from = world.open(id.src, id), to = world.open(id.dst, id);
  Ends ends;
  for (const Watch watch("for both ends"); !ends.out || !ends.in; watch.check()) {
    if (!ends.out) ends.out = from->poll();
    if (!ends.in) ends.in = to->poll();
  }
  return ends;
}

const DeviceMemory& memoryOf(const Port& port) { return std::get<DeviceMemory>(port.path); }

bool zero(const std::shared_ptr<std::byte>& memory, std::size_t bytes) {
  return std::all_of(memory.get(), memory.get() + bytes,
                     [](std::byte b) { return b == std::byte{}; });
}

void forEachKind(const std::function<void(const Kind&, bool board)>& body) {
  for (const Kind& kind : deviceKinds())
    for (bool board : {true, false}) {
      INFO(kind.name << (board ? " within a process" : " between processes"));
      body(kind, board);
    }
}

} // namespace

// Proves: inbox and credit are zeroed, aligned for flags, and the same memory at both ends.
// Channels share no memory.
TEST_CASE("device ports: both ends see the same memory") {
  const HostDevices host({.devices = 3});
  forEachKind([](const Kind& kind, bool board) {
    DeviceWorld world(kind, 3, board, 3);
    const Ends one = connect(world, {7, 0, 1, 0}), other = connect(world, {7, 0, 1, 5}),
               back = connect(world, {7, 1, 0, 0}), third = connect(world, {7, 2, 1, 0});
    for (const Ends* ends : {&one, &other, &back, &third})
      for (const Port* port : {ends->out.get(), ends->in.get()}) {
        REQUIRE(std::holds_alternative<DeviceMemory>(port->path));
        CHECK(port->slot_bytes == 1024);
        CHECK(port->depth == 4);
        CHECK(memoryOf(*port).inbox_bytes == kInbox);
        CHECK(reinterpret_cast<std::uintptr_t>(memoryOf(*port).inbox.get()) % 128 == 0);
        CHECK(reinterpret_cast<std::uintptr_t>(memoryOf(*port).credit.get()) % 128 == 0);
        CHECK(zero(memoryOf(*port).inbox, kInbox));
        CHECK(zero(memoryOf(*port).credit, kCredit));
      }
    std::memset(memoryOf(*one.out).inbox.get(), 1, kInbox);
    std::memset(memoryOf(*one.in).credit.get(), 2, kCredit);
    CHECK(memoryOf(*one.in).inbox.get()[kInbox - 1] == std::byte{1});
    CHECK(memoryOf(*one.out).credit.get()[kCredit - 1] == std::byte{2});
    for (const Ends* ends : {&other, &back, &third}) {
      CHECK(zero(memoryOf(*ends->in).inbox, kInbox));
      CHECK(zero(memoryOf(*ends->out).credit, kCredit));
    }
  });
}

// Proves: memory exists as long as one end does, whichever end is destroyed first, also if the
// transports are destroyed.
TEST_CASE("device ports: memory outlives the other end") {
  const HostDevices host({.devices = 2});
  forEachKind([](const Kind& kind, bool board) {
    Ends ends;
    {
      DeviceWorld world(kind, 2, board, 2);
      ends = connect(world, {7, 0, 1, 0});
    }
    ends.out.reset();
    std::memset(memoryOf(*ends.in).inbox.get(), 1, kInbox);
    std::memset(memoryOf(*ends.in).credit.get(), 1, kCredit);
  });
  CHECK(host.allocations() == 0);
}

// Proves: a rank may send and leave before its peer opens its end, since its end is open at once.
TEST_CASE("device ports: within a process a channel outlives the rank that opened it first") {
  const HostDevices host({.devices = 2});
  for (const Kind& kind : deviceKinds())
    for (const int first : {0, 1}) {
      INFO(kind.name << ", rank " << first << " leaves");
      DeviceWorld world(kind, 2, true, 2);
      const ChannelId id{7, 0, 1, 0};
      const Address left = world.at(first).address();
      {
        const auto port = world.open(first, id)->poll();
        const DeviceMemory& memory = memoryOf(*port);
        *(first == 0 ? memory.inbox : memory.credit) = std::byte{5};
      }
      world.all[static_cast<std::size_t>(first)].reset();
      const auto port = world.at(1 - first).open(id, left)->poll();
      const DeviceMemory& memory = memoryOf(*port);
      CHECK(*(first == 0 ? memory.inbox : memory.credit) == std::byte{5});
      *(first == 0 ? memory.credit : memory.inbox) = std::byte{6};
    }
  CHECK(host.allocations() == 0);
}

// Proves: within a process no end waits: one thread may open all ends of all ranks in any order.
TEST_CASE("device ports: within a process an end is open at once") {
  const HostDevices host({.devices = 2});
  for (const Kind& kind : deviceKinds()) {
    DeviceWorld world(kind, 2, true, 2);
    const auto in = world.open(1, {7, 0, 1, 0})->poll();
    const auto out = world.open(0, {7, 0, 1, 0})->poll();
    CHECK(in);
    CHECK(out);
    CHECK_THROWS_AS(world.open(0, {7, 0, 1, 0}), Error);
  }
}

// Proves: reaches() has the same answer on both sides. It is false if the devices do not see each
// other (nvlink), if the ranks open channels in different ways, and on another machine.
TEST_CASE("device ports: reaches() is symmetric, and false for unreachable devices") {
  for (bool see : {true, false}) {
    const HostDevices host({.devices = 2, .see_each_other = see});
    forEachKind([see](const Kind& kind, bool board) {
      DeviceWorld world(kind, 4, board, 2), other(kind, 2, !board, 2);
      const bool apart = see || kind.name == "pcie";
      for (int a : {0, 1})
        for (int b : {2, 3}) {
          const bool same = a + 2 == b;
          CHECK(world.at(a).reaches(world.at(b).address()) == (same || apart));
          CHECK(world.at(b).reaches(world.at(a).address()) == (same || apart));
        }
      CHECK(!world.at(0).reaches(other.at(0).address()));
      CHECK(!other.at(0).reaches(world.at(0).address()));
      CHECK(world.at(0).address().size() <= kMostAddressBytes);
    });
  }
}

// Proves: addresses that no rank has made are errors, with any bytes removed or changed.
TEST_CASE("device ports: damaged addresses are refused") {
  const HostDevices host({.devices = 2});
  forEachKind([](const Kind& kind, bool board) {
    DeviceWorld world(kind, 2, board, 2);
    const Address good = world.at(1).address();
    for (std::size_t length = 1; length < good.size(); ++length) {
      const Address cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length));
      try {
        world.at(0).reaches(cut); // may be true if only the socket's name is shorter
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::transport);
      }
    }
    Address none = good;
    if (!none.empty()) {
      none[0] = std::byte{0xff};
      CHECK_THROWS_AS(world.at(0).reaches(none), Error);
    }
  });
}

// Proves: a peer that never opens its end is a timeout that names channel and rank.
TEST_CASE("device ports: a missing peer is named") {
  const HostDevices host;
  for (const Kind& kind : deviceKinds()) {
    Context context = makeContext(0, 2, 7, {}, net::Secret::random(), nullptr);
    context.options.init_timeout = std::chrono::milliseconds(100);
    context.on = {device::openDevice(0), {1024, 4}, kInbox, kCredit};
    const auto alone = kind.make(context);
    const auto pending = alone->open({7, 1, 0, 0}, alone->address());
    try {
      for (const Watch watch("for the deadline");; watch.check())
        if (pending->poll()) FAIL("it connected without a peer");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::timeout);
      CHECK(error.culprit() == 1);
      CHECK(std::string(error.what()).find("1 -> 0") != std::string::npos);
    }
  }
}

} // namespace rondo::test
