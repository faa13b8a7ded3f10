// Tests exchange(), splits and decline(), which ranks use in addition to calls.

#include "rondo/detail/shims.h"
#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// Rendezvous of one communicator, in process or over the control plane's sockets.
std::vector<Rendezvous> recipes(int size, bool sockets) {
  const Rendezvous local = Rendezvous::inProcess(size);
  const UniqueId id = sockets ? UniqueId::create(plainOptions()) : UniqueId{};
  std::vector<Rendezvous> all;
  for (int rank = 0; rank < size; ++rank)
    all.push_back(sockets ? Rendezvous::uniqueId(id, rank, size) : local.as(rank));
  return all;
}

std::vector<Communicator> madeBy(const std::vector<Rendezvous>& all) {
  std::vector<std::future<Communicator>> making;
  for (const Rendezvous& one : all)
    making.push_back(Communicator::createAsync(one, plainOptions()));
  std::vector<Communicator> made;
  for (auto& one : making) made.push_back(one.get());
  return made;
}

/// This rank's bytes. Their length differs by rank; rank 0 has none.
std::vector<std::byte> wordsOf(int rank, int round) {
  return std::vector<std::byte>(static_cast<std::size_t>(rank * 1000),
                                static_cast<std::byte>(rank + 16 * round));
}

std::string exchanged(Communicator& comm, int round) {
  const auto all = comm.exchange(wordsOf(comm.rank(), round));
  if (all.size() != static_cast<std::size_t>(comm.size())) return "the number of ranks is wrong";
  for (int rank = 0; rank < comm.size(); ++rank)
    if (all[static_cast<std::size_t>(rank)] != wordsOf(rank, round))
      return "rank " + std::to_string(rank) + "'s bytes are wrong";
  return "";
}

} // namespace

// Proves: every rank gets every rank's bytes, for any lengths, while a call is in flight that
// cannot end before.
TEST_CASE("exchange() gives all ranks' bytes, while calls are in flight") {
  for (const bool sockets : {false, true})
    for (const int size : kRankCounts) {
      CAPTURE(sockets, size);
      auto ranks = madeBy(recipes(size, sockets));
      CHECK(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
              const int right = (comm.rank() + 1) % comm.size();
              const int left = (comm.rank() + comm.size() - 1) % comm.size();
              std::int32_t in = -1;
              const std::int32_t out = comm.rank();
              Work received = comm.recvAsync(&in, 1, DataType::int32, left);
              for (int round = 0; round < 3; ++round)
                if (auto wrong = exchanged(comm, round); !wrong.empty()) return wrong;
              comm.send(&out, 1, DataType::int32, right);
              received.wait();
              return in == left ? "" : "the message is wrong";
            })) == "");
    }
}

// Proves: exchanges and splits of one thread run in the order of its calls, on whatever threads.
TEST_CASE("exchanges and splits keep the order of the calls") {
  const int size = 3;
  auto ranks = madeBy(recipes(size, true));
  std::vector<std::future<std::vector<std::vector<std::byte>>>> told;
  std::vector<std::future<std::optional<Communicator>>> split;
  for (int round = 0; round < 4; ++round)
    for (Communicator& one : ranks) {
      told.push_back(one.exchangeAsync(wordsOf(one.rank(), round)));
      split.push_back(one.splitAsync(0, round % 2 == 0 ? one.rank() : -one.rank()));
    }
  for (std::size_t i = 0; i < told.size(); ++i) {
    const int round = static_cast<int>(i) / size, rank = static_cast<int>(i) % size;
    CHECK(told[i].get()[2] == wordsOf(2, round));
    CHECK(split[i].get()->rank() == (round % 2 == 0 ? rank : size - 1 - rank));
  }
}

TEST_CASE("exchange() refuses too many bytes, and ranks that split instead") {
  for (const bool sockets : {false, true}) {
    CAPTURE(sockets);
    auto ranks = madeBy(recipes(3, sockets));
    const std::vector<std::byte> long_words(16 * 1024 + 1);
    CHECK(says(caught([&] { ranks[1].exchange(long_words); }), ErrorCode::invalid_argument,
               {"16385", "16384"}));
    CHECK(firstComplaint(onRanks(ranks, [](Communicator& c) { return exchanged(c, 1); })) == "");
    const auto found = onRanks(ranks, [](Communicator& comm) -> std::string {
      const Caught error = caught([&] {
        if (comm.rank() == 2) comm.split(0, 0);
        else comm.exchange({});
      });
      return error.code == ErrorCode::mismatch && error.text.find("split") != std::string::npos
                 ? ""
                 : "ended with: " + error.text;
    });
    CHECK(firstComplaint(found) == "");
  }
}

// Proves: if a rank declines, ranks that wait and ranks that join later get its Error.
// Communicators made before go on.
TEST_CASE("a rank that declines ends the others' create() with its Error") {
  for (const bool sockets : {false, true})
    for (const int size : {2, 3, 8}) {
      CAPTURE(sockets, size);
      const auto all = recipes(size, sockets);
      std::vector<Communicator> before;
      if (!sockets) before = madeBy(all);
      const auto expected = [&](std::future<Communicator>& one) {
        return says(caught([&] { one.get(); }), ErrorCode::unsupported, {"cannot come: no seat"});
      };
      auto waits = Communicator::createAsync(all.back(), plainOptions());
      detail::Shims::decline(all[0], Error(ErrorCode::unsupported, "cannot come: no seat"),
                             plainOptions());
      CHECK(expected(waits));
      for (std::size_t rank = 1; rank + 1 < all.size(); ++rank) {
        auto late = Communicator::createAsync(all[rank], plainOptions());
        CHECK(expected(late));
      }
      CHECK(firstComplaint(onRanks(before, [](Communicator& c) { return exchanged(c, 0); })) == "");
    }
}

TEST_CASE("the rank that declines is named; declining after the hub has ended tells no rank") {
  const auto all = recipes(3, true);
  auto waits = Communicator::createAsync(all[1], plainOptions());
  detail::Shims::decline(all[2], Error(ErrorCode::aborted, "went home"), plainOptions());
  CHECK(caught([&] { waits.get(); }).culprit == 2);
  const UniqueId none{};
  CHECK(caught([&] {
          detail::Shims::decline(Rendezvous::uniqueId(none, 0, 2), Error(ErrorCode::aborted, ""),
                                 plainOptions());
        }).code == ErrorCode::invalid_argument);
}

// Proves: if all ranks have left, so that the hub has ended, no rank waits for it for ever.
TEST_CASE("joining or declining after the hub has ended fails by the deadline") {
  Options options = plainOptions();
  options.init_timeout = std::chrono::milliseconds(500);
  const UniqueId id = UniqueId::create(options);
  {
    std::vector<Rendezvous> all;
    for (int rank = 0; rank < 2; ++rank) all.push_back(Rendezvous::uniqueId(id, rank, 2));
    auto ranks = madeBy(all);
    REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& c) { return exchanged(c, 0); })) == "");
  }
  const Rendezvous late = Rendezvous::uniqueId(id, 1, 2);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(caught([&] { Communicator::create(late, options); }).code == ErrorCode::init_failed);
  const Error why(ErrorCode::aborted, "went home");
  CHECK(caught([&] { detail::Shims::decline(late, why, options); }).code == ErrorCode::init_failed);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}

} // namespace rondo::test
