// Tests Communicator::arrived(): receiving from whichever rank sends first.
#include <thread>

#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr DataType kType = DataType::int32;

/// A rank whose message has arrived and that has not been received from.
int whoever(Communicator& comm, const std::vector<bool>& heard) {
  for (;;) {
    for (int peer = 1; peer < comm.size(); ++peer)
      if (!heard[static_cast<std::size_t>(peer)] && comm.arrived(peer)) return peer;
    std::this_thread::yield();
  }
}

/// Rank 0 receives one message from each other rank, in the order of arrival.
std::string fromAll(Communicator& comm, std::size_t count) {
  std::vector<std::int32_t> data(count, comm.rank());
  if (comm.rank() > 0) {
    comm.send(data.data(), count, kType, 0);
    return "";
  }
  std::vector<bool> heard(static_cast<std::size_t>(comm.size()));
  for (int i = 1; i < comm.size(); ++i) {
    const int peer = whoever(comm, heard);
    comm.recv(data.data(), count, kType, peer);
    if (data != std::vector<std::int32_t>(count, peer)) return "wrong data";
    heard[static_cast<std::size_t>(peer)] = true;
  }
  return "";
}

} // namespace

// Proves: arrived() becomes true for a message of any size without a recv(), also from ranks to
// which no channel is open.
TEST_CASE("arrived() finds the rank that has sent a message") {
  for (const char* transport : {"inproc", "shm", "tcp"})
    for (const int size : kRankCounts)
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20}) {
        CAPTURE(transport, size, count);
        auto ranks = Communicator::createAll(size, plainOptions(transport));
        CHECK(firstComplaint(onRanks(ranks, [count](Communicator& comm) {
                for (int round = 0; round < 3; ++round)
                  if (auto wrong = fromAll(comm, count); !wrong.empty()) return wrong;
                comm.barrier();
                return std::string();
              })) == "");
      }
}

TEST_CASE("arrived() is false for a message that a recv() is queued for") {
  auto ranks = Communicator::createAll(2, plainOptions());
  std::int32_t first = 0, second = 0;
  const std::int32_t one = 1, two = 2;
  CHECK(!ranks[0].arrived(1));
  Work received = ranks[0].recvAsync(&first, 1, kType, 1);
  CHECK(!ranks[0].arrived(1));
  Work sent = ranks[1].sendAsync(&one, 1, kType, 0);
  received.wait();
  CHECK(!ranks[0].arrived(1));
  Work again = ranks[1].sendAsync(&two, 1, kType, 0);
  while (!ranks[0].arrived(1)) again.test();
  CHECK(ranks[0].arrived(1)); // arrived() consumes nothing
  ranks[0].recv(&second, 1, kType, 1);
  CHECK((first == 1 && second == 2));
}

// A rank that only polls does not wait, so the time limit for opening a channel must not end it.
TEST_CASE("arrived() may be polled for longer than a channel may take to open") {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    Options options = plainOptions(transport);
    options.init_timeout = std::chrono::milliseconds(1000);
    auto ranks = Communicator::createAll(2, options);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
    while (std::chrono::steady_clock::now() < until) {
      REQUIRE(!ranks[0].arrived(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::int32_t one = 1;
    Work sent = ranks[1].sendAsync(&one, 1, kType, 0);
    while (!ranks[0].arrived(1)) sent.test();
    std::int32_t got = 0;
    ranks[0].recv(&got, 1, kType, 1);
    CHECK(got == 1);
  }
}

TEST_CASE("arrived() of a rank that has left is an error, but others' messages still arrive") {
  auto ranks = Communicator::createAll(3, plainOptions("tcp"));
  std::int32_t value = 1;
  for (const std::size_t peer : {1U, 2U}) { // opens the channels
    Work sent = ranks[peer].sendAsync(&value, 1, kType, 0);
    ranks[0].recv(&value, 1, kType, static_cast<int>(peer));
    sent.wait();
  }
  { const Communicator leaves = std::move(ranks[1]); }
  CHECK(says(caught([&] {
               for (;;) ranks[0].arrived(1);
             }),
             ErrorCode::peer_dead, {"rank 1"}));
  CHECK(!ranks[0].failure());
  Work sent = ranks[2].sendAsync(&value, 1, kType, 0);
  while (!ranks[0].arrived(2)) sent.test();
  ranks[0].recv(&value, 1, kType, 2);
}

TEST_CASE("arrived() refuses an invalid rank, and throws the communicator's failure") {
  auto ranks = Communicator::createAll(2, plainOptions());
  CHECK(says(caught([&] { ranks[0].arrived(2); }), ErrorCode::invalid_argument,
             {"arrived", "2 is not a rank", "0 to 1"}));
  ranks[1].abort("enough");
  const auto ends = caught([&] {
    for (;;) ranks[0].arrived(1);
  });
  CHECK(says(ends, ErrorCode::aborted, {"enough"}));
}

} // namespace rondo::test
