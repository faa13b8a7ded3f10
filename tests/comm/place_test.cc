// Tests that ranks know the places of all ranks, and that they are bound as requested.
#include <string>
#include <thread>
#include <vector>

#include "plan/layout.h"
#include "support/caught.h"
#include "support/collective_case.h"
#include "support/ranks.h"
#include "support/test.h"
#include "topology/bind.h"
#include "topology/place.h"

namespace rondo::test {
namespace {

struct Seen {
  topology::Processors before, after; ///< processors of the rank's thread
  std::vector<Place> places;          ///< of all ranks, as this rank knows them
  std::vector<int> again;             ///< its processors in a second communicator
  Caught error;
};

/// Ranks as threads, after `prepare` has set up each thread.
template <typename Prepare>
std::vector<Seen> bound(int size, const std::string& rule, const Prepare& prepare) {
  const Rendezvous meet = Rendezvous::inProcess(size), meet_again = Rendezvous::inProcess(size);
  std::vector<Seen> seen(static_cast<std::size_t>(size));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      Seen& own = seen[static_cast<std::size_t>(rank)];
      prepare(rank);
      own.before = topology::ownProcessors();
      own.error = caught([&] {
        Options options = plainOptions();
        options.bind = rule;
        const Communicator comm = Communicator::create(meet.as(rank), options);
        for (int r = 0; r < size; ++r) own.places.push_back(comm.placeOf(r));
        const Communicator again = Communicator::create(meet_again.as(rank), options);
        own.again = again.placeOf(rank).processors;
      });
      own.after = topology::ownProcessors();
    });
  threads.clear();
  return seen;
}
std::vector<Seen> bound(int size, const std::string& rule) {
  return bound(size, rule, [](int) {});
}

} // namespace

TEST_CASE("ranks are bound in turn to the processors that they share, and all know it") {
  const topology::Processors all = topology::ownProcessors();
  for (const int size : {1, 2, 3, 5}) {
    const auto seen = bound(size, "core");
    for (std::size_t rank = 0; rank < seen.size(); ++rank) {
      CAPTURE(size, rank);
      CHECK(seen[rank].before == all);
      CHECK(seen[rank].after.size() <= all.size() / 2 + all.size() % 2);
      CHECK(topology::contains(all, seen[rank].after));
      CHECK(seen[rank].again == seen[rank].after);
      REQUIRE(seen[rank].places.size() == seen.size());
      for (std::size_t other = 0; other < seen.size(); ++other) {
        CHECK(seen[rank].places[other].processors == seen[other].after);
        CHECK(seen[rank].places[other].process == topology::processToken());
        CHECK(seen[rank].places[other].package >= 0);
      }
      // As many consecutive ranks as there are cores have different ones.
      if (rank > 0 && all.size() > 1) CHECK(seen[rank].after != seen[rank - 1].after);
    }
  }
}

TEST_CASE("no rank is bound without an option, or if ranks are already bound differently") {
  const topology::Processors all = topology::ownProcessors();
  for (const char* rule : {"", "none"})
    for (const Seen& one : bound(2, rule)) CHECK(one.after == all);
  if (all.size() < 2) return;
  const auto first = [&](int rank) {
    if (rank == 0) topology::bindThread({all[0]});
  };
  for (const char* rule : {"core", "socket", "0"})
    for (const Seen& one : bound(2, rule, first)) {
      CHECK_FALSE(one.error.threw);
      CHECK(one.after == one.before);
    }
}

TEST_CASE("a list binds rank by rank; a processor that a rank may not use is refused on all") {
  const topology::Processors all = topology::ownProcessors();
  const std::string last = std::to_string(all.back()), first = std::to_string(all.front());
  const auto seen = bound(2, last + "," + first);
  CHECK(seen[0].after == topology::Processors{all.back()});
  CHECK(seen[1].after == topology::Processors{all.front()});
  const auto refused = bound(3, first + ",65000");
  for (const Seen& one : refused) {
    CHECK(says(one.error, ErrorCode::invalid_argument,
               {"RONDO_BIND gives processor 65000 to rank 1, which may use"}));
    CHECK(one.after == all);
  }
  for (const Seen& one : bound(2, "cores"))
    CHECK(says(one.error, ErrorCode::invalid_argument, {"RONDO_BIND", "core, socket"}));
}

TEST_CASE("a place is encoded and decoded unchanged, and two places have a link") {
  Place place{.node = "n", .machine = "m", .host = "h", .process = 7, .processors = {0, 1, 5}};
  place.package = 1;
  place.cache = 4;
  place.cache_level = 3;
  base::Writer out;
  topology::write(out, place);
  base::Reader in(out.bytes(), "a place");
  const Place read = topology::readPlace(in);
  in.finish();
  CHECK(read.node == "n");
  CHECK(read.process == 7);
  CHECK(read.processors == place.processors);
  CHECK(read.cache_level == 3);
  const auto codeTo = [&](const auto& change) {
    Place other = place;
    other.process = 8;
    change(other);
    REQUIRE(topology::linkBetween(place, other) == topology::linkBetween(other, place));
    return topology::code(topology::linkBetween(place, other));
  };
  CHECK(codeTo([](Place& p) { p.process = 7; }) == "proc");
  CHECK(codeTo([](Place&) {}) == "L3");
  CHECK(codeTo([](Place& p) { p.cache = 0; }) == "sock");
  CHECK(codeTo([](Place& p) { p.cache = p.package = 0; }) == "SYS");
  CHECK(codeTo([](Place& p) { p.cache = p.package = -1; }) == "mach");
  CHECK(codeTo([](Place& p) { p.node = "o"; }) == "net");
  CHECK(codeTo([](Place& p) { p.machine = "o"; }) == "net");
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, out.bytes().size() - 1}) {
    base::Reader torn(out.bytes().first(length), "a place");
    CHECK(caught([&] { topology::readPlace(torn); }).code == ErrorCode::transport);
  }
}

TEST_CASE("placeOf refuses an invalid rank") {
  auto ranks = Communicator::createAll(2, plainOptions());
  CHECK(caught([&] { ranks[0].placeOf(2); }).code == ErrorCode::invalid_argument);
  CHECK(caught([&] { ranks[0].placeOf(-1); }).code == ErrorCode::invalid_argument);
}

} // namespace rondo::test
