// Send and Recv on devices: alone, in groups, between collectives, captured.
#include <algorithm>
#include <iterator>
#include <random>

#include "device/device_ranks.h"
#include "support/caught.h"
#include "support/test.h"
#include "transports/registry.h"

namespace rondo::test {
namespace {

/// Slots of 1 KiB, four in a ring: larger messages fill the channel many times.
Options smallSlots(const std::string& transport = "") {
  Options options = onDevice(transport);
  options.channel_bytes = 4 << 10;
  options.channel_depth = 4;
  return options;
}

std::byte byteOf(int from, int to, int number, std::size_t i) {
  return static_cast<std::byte>(static_cast<std::size_t>(from * 37 + to * 11 + number * 5) + i +
                                i / 251);
}

/// A message of bytes at an odd address, with guard bytes before and after it.
class Message {
 public:
  Message(int from, int to, int number, std::size_t bytes)
      : from_(from), to_(to), number_(number), bytes_(bytes + 2, kGuard) {}

  std::byte* at() { return bytes_.data() + 1; }
  std::size_t count() const { return bytes_.size() - 2; }

  void send(Communicator& comm) {
    for (std::size_t i = 0; i < count(); ++i) at()[i] = byteOf(from_, to_, number_, i);
    comm.send(at(), count(), DataType::uint8, to_);
  }
  void recv(Communicator& comm) { comm.recv(at(), count(), DataType::uint8, from_); }
  void forget() { std::fill(bytes_.begin(), bytes_.end(), kGuard); }

  /// What is wrong after the call; empty if nothing is.
  std::string wrong() {
    const std::string name = "message " + std::to_string(number_) + " of " +
                             std::to_string(count()) + " bytes from " + std::to_string(from_) +
                             " to " + std::to_string(to_);
    if (bytes_.front() != kGuard || bytes_.back() != kGuard) return name + ": written outside";
    for (std::size_t i = 0; i < count(); ++i)
      if (at()[i] != byteOf(from_, to_, number_, i)) return name + ": byte " + std::to_string(i);
    return {};
  }

 private:
  static constexpr std::byte kGuard{0xa5};
  int from_, to_, number_;
  std::vector<std::byte> bytes_;
};

/// The messages of one rank.
struct Messages {
  std::vector<Message> out, in;

  /// Calls them in an order that depends on the seed. Messages of one peer keep their order.
  void call(Communicator& comm, unsigned seed = 0) {
    std::vector<bool> sends(out.size(), true);
    sends.resize(out.size() + in.size(), false);
    std::shuffle(sends.begin(), sends.end(),
                 std::minstd_rand(seed + static_cast<unsigned>(comm.rank())));
    auto next_out = out.begin(), next_in = in.begin();
    for (const bool send : sends)
      if (send) (next_out++)->send(comm);
      else (next_in++)->recv(comm);
  }
  std::string wrong() {
    for (auto* all : {&out, &in})
      for (Message& one : *all)
        if (std::string text = one.wrong(); !text.empty()) return text;
    return {};
  }
};

/// From each rank to each rank, also itself. The sizes are around `bytes` and differ from pair to
/// pair.
Messages allToAll(int rank, int ranks, std::size_t bytes, int number = 0) {
  Messages all;
  for (int peer = 0; peer < ranks; ++peer) {
    all.out.emplace_back(rank, peer, number, bytes + static_cast<std::size_t>(3 * rank + peer));
    all.in.emplace_back(peer, rank, number, bytes + static_cast<std::size_t>(3 * peer + rank));
  }
  return all;
}

std::string exchange(Communicator& comm, Messages messages, unsigned seed = 0) {
  Group group;
  messages.call(comm, seed);
  group.end();
  return messages.wrong();
}

} // namespace

// Proves: a message of any size and type arrives with single calls, and each call is one launch.
TEST_CASE("device messages: a send and its receive are a launch each") {
  for (std::uint32_t threads : {1u, 3u}) {
    const HostDevices host({.threads = threads});
    DeviceRanks world(2, smallSlots());
    for (std::size_t bytes : {0, 1, 7, 1000, 1024, 20'011, 60'001}) {
      const auto before = host.launches();
      REQUIRE(firstComplaint(onRanks(world.all, [&](Communicator& comm) -> std::string {
                Message message(0, 1, 0, bytes);
                if (comm.rank() == 0) message.send(comm);
                else message.recv(comm);
                return message.wrong();
              })) == "");
      CHECK(host.launches() == before + 2);
    }
    REQUIRE(firstComplaint(onRanks(world.all, [&](Communicator& comm) -> std::string {
              std::vector<double> data(5000, comm.rank() == 0 ? 1.5 : 0);
              if (comm.rank() == 0) comm.send(data.data(), data.size(), DataType::float64, 1);
              else comm.recv(data.data(), data.size(), DataType::float64, 0);
              return data == std::vector<double>(5000, 1.5) ? "" : "wrong numbers";
            })) == "");
  }
}

// Proves: in a group, all ranks can send to all ranks and to themselves, much more than the
// channels hold, in any order of the calls. The group is one launch on each rank.
TEST_CASE("device messages: all ranks exchange large messages in a group") {
  for (const transport::Kind& transport : transport::deviceKinds())
    for (int ranks : kRankCounts)
      for (int devices : {1, ranks}) {
        const HostDevices host({.devices = devices});
        DeviceRanks world(ranks, smallSlots(std::string(transport.name)), devices);
        INFO(transport.name << ", " << ranks << " ranks on " << devices << " devices");
        for (std::size_t bytes : {0, 5, 1001, 50'000}) {
          const auto before = host.launches();
          REQUIRE(firstComplaint(onRanks(world.all, [&](Communicator& comm) {
                    return exchange(comm, allToAll(comm.rank(), ranks, bytes), 7);
                  })) == "");
          CHECK(host.launches() == before + static_cast<std::uint64_t>(ranks));
        }
      }
}

// Proves: the same over TCP, with and without links through memory, in one copy and without
// packets.
TEST_CASE("device messages over tcp: all ranks exchange large messages in a group") {
  for (const std::string transport : {"tcp", "nvlink,tcp"})
    for (int ranks : kWholeGrid ? std::vector<int>{2, 3, 5} : std::vector<int>{3}) {
      const HostDevices host({.devices = 2, .see_each_other = false});
      DeviceRanks world(ranks, smallSlots(transport), 2);
      INFO(transport << ", " << ranks << " ranks");
      CHECK(world.all[0].transportTo(1) == "tcp");
      for (std::size_t bytes : {0, 5, 1001, 50'000})
        REQUIRE(firstComplaint(onRanks(world.all, [&](Communicator& comm) {
                  return exchange(comm, allToAll(comm.rank(), ranks, bytes), 7);
                })) == "");
    }
}

// Proves: if a rank's share of the device has fewer blocks than peers, their messages run one after
// the other and no rank waits forever.
TEST_CASE("device messages: more peers than blocks take turns") {
  for (int ranks : {2, 5, 8})
    for (int share : {2, 5, 7}) {
      const HostDevices host({.blocks = share * ranks});
      DeviceRanks world(ranks, smallSlots());
      INFO(ranks << " ranks with " << share << " blocks each");
      for (unsigned seed : {1u, 2u, 3u})
        REQUIRE(firstComplaint(onRanks(world.all, [&](Communicator& comm) {
                  return exchange(comm, allToAll(comm.rank(), ranks, 9000), seed);
                })) == "");
    }
}

// Proves: the threads of a block change from job to job together, for any sequence of protocols and
// sizes.
TEST_CASE("device messages: blocks of several threads take turns") {
  const HostDevices host({.blocks = 3 * 5, .threads = 3});
  DeviceRanks world(3, smallSlots());
  REQUIRE(firstComplaint(onRanks(world.all, [&](Communicator& comm) {
            const int rank = comm.rank();
            Messages all;
            for (int number = 0; number < 6; ++number) {
              // one size for each protocol
              const std::size_t bytes = number % 2 == 0 ? 3000 : 40'000;
              Messages more = allToAll(rank, 3, number == 3 ? 0 : bytes, number);
              std::move(more.out.begin(), more.out.end(), std::back_inserter(all.out));
              std::move(more.in.begin(), more.in.end(), std::back_inserter(all.in));
            }
            return exchange(comm, std::move(all), 5);
          })) == "");
}

// Proves: if the device has no two blocks for a rank, one for sends and one for receives, the call
// is refused with that reason, and the communicator stays usable.
TEST_CASE("device messages: ranks that do not fit on their device are refused") {
  const HostDevices host({.blocks = 3});
  DeviceRanks world(3, onDevice("", "broadcast:chain"));
  std::int32_t value = 0;
  CHECK(says(caught([&] { world.all[0].send(&value, 1, DataType::int32, 1); }),
             ErrorCode::unsupported, {"holds 3 for 3 ranks", "fewer ranks per GPU"}));
  CHECK(world.run({{Collective::broadcast, 100, DataType::int32}}) == "");
}

// Proves: messages between two ranks arrive in the order of the calls, also if a group has more of
// them than a launch holds.
TEST_CASE("device messages: many messages between two ranks keep their order") {
  const HostDevices host;
  DeviceRanks world(2, smallSlots());
  const auto before = host.launches();
  REQUIRE(firstComplaint(onRanks(world.all, [&](Communicator& comm) {
            const int rank = comm.rank(), peer = 1 - rank;
            Messages all;
            for (int i = 0; i < 130; ++i) { // a launch holds 56 in each direction
              const std::size_t bytes = i % 10 == 0 ? 9000 : 4;
              all.out.emplace_back(rank, peer, i, bytes);
              all.in.emplace_back(peer, rank, i, bytes);
            }
            return exchange(comm, std::move(all), 3);
          })) == "");
  CHECK(host.launches() == before + 6);
}

// Proves: on every rank, the collectives of a group run before its messages, for any order of the
// calls. Outside groups the calls run in order.
TEST_CASE("device messages: a group runs its collectives before its messages") {
  const HostDevices host;
  DeviceRanks world(3, smallSlots());
  REQUIRE(firstComplaint(onRanks(world.all, [&](Communicator& comm) -> std::string {
            const int rank = comm.rank(), right = (rank + 1) % 3, left = (rank + 2) % 3;
            for (int round = 0; round < 3; ++round) {
              std::vector<float> sum(5000, 1), again(70, 2);
              const auto add = [&comm](std::vector<float>& data) {
                comm.allReduce(data.data(), data.data(), data.size(), DataType::float32,
                               ReduceOp::sum);
              };
              Message out(rank, right, round, 30'000), in(left, rank, round, 30'000);
              Group group;
              if (rank != 0) add(sum);
              out.send(comm);
              if (rank == 0) add(sum);
              in.recv(comm);
              add(again);
              group.end();
              if (sum != std::vector<float>(5000, 3)) return "wrong sum";
              if (again != std::vector<float>(70, 6)) return "wrong second sum";
              if (std::string wrong = in.wrong(); !wrong.empty()) return wrong;

              Message lone(0, 1, round, 100); // fits the channel
              if (rank == 0) lone.send(comm);
              add(sum);
              if (rank == 1) lone.recv(comm);
              if (rank == 0 || rank == 1)
                if (std::string wrong = lone.wrong(); !wrong.empty()) return wrong;
            }
            return {};
          })) == "");
}

// Proves: a small message to the rank itself needs no group, because it fits the channel.
TEST_CASE("device messages: a rank sends to itself") {
  const HostDevices host;
  DeviceRanks world(2, smallSlots());
  REQUIRE(firstComplaint(onRanks(world.all, [&](Communicator& comm) -> std::string {
            Message out(comm.rank(), comm.rank(), 1, 100), in = out;
            out.send(comm);
            in.recv(comm);
            return in.wrong();
          })) == "");
}

// Proves: one thread can run all ranks of several communicators. A group that no thread waits for
// is on the streams when start() returns, after the work before it and before the work after it.
TEST_CASE("device messages: one thread starts the groups of all ranks") {
  const HostDevices host;
  DeviceRanks one(3, smallSlots()), two(3, smallSlots());
  std::vector<Messages> messages;
  std::vector<std::string> seen(6, "nothing ran");
  std::vector<DeviceRanks*> worlds{&one, &two};
  for (std::size_t i = 0; i < 6; ++i)
    messages.push_back(allToAll(static_cast<int>(i % 3), 3, 20'000, static_cast<int>(i / 3)));
  one.stream(one.all[1]).push([] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); });
  Group group;
  for (std::size_t i = 0; i < 6; ++i) messages[i].call(worlds[i / 3]->all[i % 3]);
  Work work = group.start();
  for (std::size_t i = 0; i < 6; ++i)
    worlds[i / 3]->stream(worlds[i / 3]->all[i % 3]).push([&, i] {
      seen[i] = messages[i].wrong();
    });
  work.wait();
  for (DeviceRanks* world : worlds)
    for (Communicator& comm : world->all) world->stream(comm).synchronize();
  CHECK(seen == std::vector<std::string>(6));
}

// Proves: a captured group runs at every replay, between groups that are not captured.
TEST_CASE("device messages: a captured group runs when it is replayed") {
  const HostDevices host;
  DeviceRanks world(3, smallSlots());
  std::vector<Messages> messages;
  std::vector<HostStream::Graph> graphs;
  for (int rank = 0; rank < 3; ++rank) {
    Communicator& comm = world.all[static_cast<std::size_t>(rank)];
    messages.push_back(allToAll(rank, 3, 20'000));
    world.stream(comm).beginCapture();
    Group group;
    messages.back().call(comm);
    Work work = group.start();
    CHECK(work.test());
    work.wait();
    graphs.push_back(world.stream(comm).endCapture());
    CHECK(messages.back().in[0].wrong() != ""); // nothing has run
  }
  for (int replay = 0; replay < 3; ++replay) {
    for (std::size_t r = 0; r < 3; ++r) {
      for (Message& one : messages[r].in) one.forget();
      world.stream(world.all[r]).replay(graphs[r]);
    }
    for (std::size_t r = 0; r < 3; ++r) {
      world.stream(world.all[r]).synchronize();
      CHECK(messages[r].wrong() == "");
    }
    REQUIRE(firstComplaint(onRanks(world.all, [&](Communicator& comm) {
              return exchange(comm, allToAll(comm.rank(), 3, 500));
            })) == "");
  }
}

// Proves: a group on a new stream runs after the communicator's work on the old one.
TEST_CASE("device messages: groups on a new stream follow those on the old one") {
  const HostDevices host;
  HostStream other[2]; // outlive the communicators
  DeviceRanks world(2, smallSlots());
  std::vector<Messages> first, second;
  std::vector<Work> works;
  for (int rank = 0; rank < 2; ++rank) {
    Communicator& comm = world.all[static_cast<std::size_t>(rank)];
    for (auto* messages : {&first, &second}) messages->push_back(allToAll(rank, 2, 9000));
    world.stream(comm).push([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
    for (auto* messages : {&first, &second}) {
      Group group;
      messages->back().call(comm);
      works.push_back(group.start());
      comm.setStream(other[rank].handle());
    }
  }
  for (Work& work : works) work.wait();
  for (auto* messages : {&first, &second})
    for (Messages& of_rank : *messages) CHECK(of_rank.wrong() == "");
}

// Proves: a rank that has sent may close before its peer has opened the channel.
TEST_CASE("device messages: a message outlives the communicator that sent it") {
  const HostDevices host;
  for (const char* transport : {"nvlink", "pcie"}) {
    INFO(transport);
    DeviceRanks world(2, onDevice(transport));
    Message sent(0, 1, 0, 1000), received(0, 1, 0, 1000);
    {
      Communicator leaves = std::move(world.all[0]);
      sent.send(leaves);
    }
    received.recv(world.all[1]);
    CHECK(received.wrong() == "");
  }
  CHECK(host.allocations() == 0);
}

// Proves: repeated messages allocate nothing, and their device memory is freed.
TEST_CASE("device messages: memory is allocated once and freed") {
  const HostDevices host;
  {
    DeviceRanks world(3, smallSlots());
    const auto round = [&] {
      return firstComplaint(onRanks(world.all, [&](Communicator& comm) {
        return exchange(comm, allToAll(comm.rank(), 3, 5000));
      }));
    };
    REQUIRE(round() == "");
    const auto before = host.allocations();
    const std::size_t bytes = world.all[0].memory().bytes();
    REQUIRE(round() == "");
    CHECK(host.allocations() == before);
    CHECK(world.all[0].memory().bytes() == bytes);
  }
  CHECK(host.allocations() == 0);
}

} // namespace rondo::test
