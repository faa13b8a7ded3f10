// Tests the parts of parameter servers that need no communication: staleness bounds, grants of
// steps, losses of steps, and the assignment of keys to servers.
#include "train/parallel/ps/clocks.h"
#include "rondo/error.h"
#include "support/test.h"
#include "train/aligned.h"
#include "train/loop/straggler.h"
#include "train/parallel/ps/keys.h"
#include "train/parallel/ps/tally.h"

namespace rondo::test {

using namespace training;
using namespace training::servers;

TEST_CASE("a worker may read values that lack as many steps as the bound allows, and no more") {
  const Staleness bulk("bsp"), some("ssp:2"), any("asp");
  REQUIRE((bulk.bulk() && Staleness("ssp:0").bulk() && !some.bulk() && !any.bulk()));
  REQUIRE((bulk.bounded() && some.bounded() && !any.bounded()));
  for (std::int64_t oldest = 0; oldest < 5; ++oldest)
    for (std::int64_t own = oldest; own < oldest + 9; ++own) {
      REQUIRE(bulk.allows(own, oldest) == (own == oldest));
      REQUIRE(some.allows(own, oldest) == (own <= oldest + 2));
      REQUIRE(any.allows(own, oldest));
    }
}

// Proves: also if one worker takes all that are left, each part of the steps' samples is granted
// once; with a bound each worker has its own.
TEST_CASE("up to a synchronization point each part of the run's steps is granted once") {
  for (const char* consistency : {"bsp", "ssp:3", "asp"})
    for (int workers : {1, 2, 3, 7})
      for (std::int64_t steps : {1, 2, 5}) {
        const Staleness staleness(consistency);
        Grants grants(workers, staleness);
        grants.begin(steps);
        std::int64_t granted = workers;
        std::vector<std::int64_t> own(static_cast<std::size_t>(workers), 1);
        std::vector<int> parts(static_cast<std::size_t>(steps * workers));
        for (int worker = 0; worker < workers; ++worker) {
          const Grant first = grants.first(worker);
          REQUIRE(first.last == (staleness.bounded() && steps == 1));
          ++parts.at(static_cast<std::size_t>(first.part));
        }
        // Each worker takes as many as it gets before the next one asks.
        for (int worker = 0; worker < workers; ++worker)
          for (;;) {
            const Grant grant = grants.next(worker);
            if (!grant.go) break;
            ++granted;
            const std::int64_t now = ++own[static_cast<std::size_t>(worker)];
            REQUIRE(grant.last == (staleness.bounded() && now == steps));
            ++parts.at(static_cast<std::size_t>(grant.part));
            if (staleness.bounded()) REQUIRE(grant.part == (now - 1) * workers + worker);
          }
        REQUIRE(granted == steps * workers);
        REQUIRE(parts == std::vector<int>(parts.size(), 1));
        if (staleness.bounded())
          for (const std::int64_t one : own) REQUIRE(one == steps);
      }
}

TEST_CASE("a stop moves the synchronization point to the earliest possible step") {
  Grants bounded(3, Staleness("ssp:2"));
  bounded.begin(50);
  for (int i = 0; i < 4; ++i) bounded.next(1); // five with the first one
  bounded.stop();
  REQUIRE(!bounded.next(1).go);
  for (int i = 0; i < 3; ++i) REQUIRE(!bounded.next(0).last);
  REQUIRE(bounded.next(0).last); // its fifth
  Grants free(3, Staleness("asp"));
  free.begin(50);
  for (int i = 0; i < 4; ++i) free.next(1); // seven, with the first ones of all workers
  free.stop();
  REQUIRE((free.next(0).go && free.next(2).go && !free.next(1).go)); // nine: three for each worker
}

TEST_CASE("losses of a round are added in the order of workers, not in the order of arrival") {
  const double tiny = 1e-17;
  for (const std::vector<int>& order : {std::vector{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    Tally tally(3, 1);
    tally.begin(0);
    for (int worker : order) {
      REQUIRE(tally.steps() == 0);
      tally.add(worker, worker == 1 ? 1 : tiny);
    }
    REQUIRE(tally.steps() == 1);
    REQUIRE(tally.newest() == (tiny + 1) + tiny);
  }
  Tally tally(2, 4);
  tally.begin(3);
  for (double loss : {1.0, 2.0, 3.0, 6.0}) tally.add(1, loss); // only worker 1 contributes
  REQUIRE(tally.steps() == 2);
  REQUIRE(tally.losses() == 3 + 0.75 + 2.25);
}

TEST_CASE("every key has one server and one piece, and the pieces with the last keys come first") {
  AlignedVector<float> values(16 * 9);
  Weight first, second, mean;
  first.shape = {50}, first.value = values.data();
  second.shape = {16}, second.value = values.data() + 64;
  mean.shape = {40}, mean.value = values.data() + 80;
  const std::vector<Weight*> weights = {&first, &second}, state = {&mean};
  for (int servers : {1, 2, 3, 9})
    for (std::size_t most : {16, 32, 1 << 20}) {
      const Keys keys = layOut(values, weights, state, servers, most);
      std::size_t next = values.size();
      for (std::size_t server = keys.ranges.size(); server-- > 0;)
        for (const Piece& piece : keys.pieces[server]) {
          REQUIRE(piece.begin + piece.count == next);
          REQUIRE((piece.count > 0 && piece.count <= most));
          REQUIRE(piece.state == (piece.begin >= 80));
          next = piece.begin;
          std::size_t covered = 0;
          for (const Weight& slice : slices(piece, values, weights, values.data() + piece.begin))
            covered += slice.size();
          const std::size_t last = std::min<std::size_t>(piece.begin + piece.count, 50);
          const std::size_t of_first = last > piece.begin ? last - piece.begin : 0;
          const bool whole_second = piece.begin <= 64 && piece.begin + piece.count >= 80;
          if (!piece.state) REQUIRE(covered == of_first + (whole_second ? 16 : 0));
        }
      REQUIRE(next == 0);
    }
  REQUIRE_THROWS_AS(layOut(values, weights, state, 10, 16), Error);
}

TEST_CASE("stragglers are as slow and as often slow as requested, and the same in every run") {
  TrainOptions options;
  options.stragglers.slow = {{.rank = 1, .factor = 3}};
  options.stragglers.jitter = {.probability = 0.1, .factor = 4};
  TrainTimes last;
  last.forward = last.backward = 2;
  for (int rank : {0, 1}) {
    Straggler one(options, rank), again(options, rank);
    const double usual = rank == 1 ? 8 : 0, slow = rank == 1 ? 44 : 12;
    int slow_ones = 0;
    for (int step = 0; step < 10'000; ++step) {
      const double delay = one.next(last);
      REQUIRE(again.next(last) == delay);
      REQUIRE((delay == usual || delay == slow));
      slow_ones += delay == slow;
    }
    INFO(slow_ones);
    REQUIRE((slow_ones > 850 && slow_ones < 1150));
  }
  options.stragglers.jitter = {};
  options.stragglers.pace_ms = 10;
  REQUIRE(Straggler(options, 0).next(last) == 6);
  REQUIRE(Straggler(options, 1).next(last) == 26);
  REQUIRE(Straggler(options, 1).next({}) == 0); // the last step computed nothing
  REQUIRE(Straggler(TrainOptions(), 0).next(last) == 0);
}

} // namespace rondo::test
