// Seats of sends and receives: the properties that keep ranks from waiting for each other, for
// communicators of every size.
#include "engine/batch_layout.h"

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "device/launch.h"
#include "engine/engine.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using engine::BatchLayout;
using engine::Engine;
using engine::Seat;

constexpr std::uint32_t kCopies = 16;

struct Rank {
  BatchLayout layout;
  std::map<std::uint32_t, std::set<std::uint32_t>> lanes; ///< by launch
  std::map<std::uint32_t, std::uint32_t> jobs;
  /// By launch and lane: for each distance, whether it is a send's.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, bool> sends;
  bool mixed = false;

  Seat next(int queue) {
    const Seat seat = layout.next(queue);
    lanes[seat.launch].insert(seat.lane);
    ++jobs[seat.launch];
    const bool send = queue > Engine::kCollectives;
    const auto [entry, fresh] = sends.try_emplace({seat.launch, seat.lane, seat.distance}, send);
    mixed |= entry->second != send;
    return seat;
  }
};

} // namespace

// Proves: both ends of every message have the same launch, distance and number, which
// kernels/cuda/plan/PROOFS.md relies on. No lane has sends and receives. A launch has no more jobs
// than fit its arguments, and no more blocks than the rank's share.
TEST_CASE("batch layout: both ends of a message have the same place, within the share") {
  for (int ranks : {1, 2, 3, 5, 8, 64, 112, 113, 130})
    for (int share : {2, 3, 15, 62, 124}) {
      INFO(ranks << " ranks with " << share << " blocks each");
      std::vector<Rank> all;
      for (int r = 0; r < ranks; ++r)
        all.push_back({BatchLayout(r, ranks, {share * 2, 2}, kCopies), {}, {}, {}});
      const int messages = ranks > 8 ? 3 : 150; // of each pair
      bool same = true;
      for (int number = 0; number < messages; ++number)
        for (int src = 0; src < ranks; ++src)
          for (int dst = 0; dst < ranks; ++dst) {
            const Seat out = all[static_cast<std::size_t>(src)].next(Engine::sendQueue(dst));
            const Seat in = all[static_cast<std::size_t>(dst)].next(Engine::recvQueue(src));
            same &= out.launch == in.launch && out.distance == in.distance &&
                    out.number == in.number && out.number == static_cast<std::uint32_t>(number);
          }
      CHECK(same);
      for (const Rank& rank : all) {
        CHECK_FALSE(rank.mixed);
        CHECK(rank.layout.copies() <= kCopies);
        for (const auto& [launch, jobs] : rank.jobs) CHECK(jobs <= device::kBatchJobs);
        for (const auto& [launch, lanes] : rank.lanes)
          CHECK(lanes.size() * rank.layout.copies() <= static_cast<std::size_t>(share));
      }
    }
}

// Proves: if the share is large enough, no message waits for a message of another peer, and each
// has as many blocks as leave room for all.
TEST_CASE("batch layout: all peers run at the same time where there is room") {
  for (int ranks : {1, 2, 8})
    for (int share : {16, 124}) {
      BatchLayout layout(0, ranks, {share, 1}, kCopies);
      std::set<std::uint32_t> lanes;
      for (int peer = 0; peer < ranks; ++peer) {
        lanes.insert(layout.next(Engine::sendQueue(peer)).lane);
        lanes.insert(layout.next(Engine::recvQueue(peer)).lane);
      }
      INFO(ranks << " ranks, " << share << " blocks");
      CHECK(lanes.size() == 2 * static_cast<std::size_t>(ranks));
      CHECK(layout.copies() ==
            std::min<std::uint32_t>(kCopies, static_cast<std::uint32_t>(share / (2 * ranks))));
    }
}

// Proves: every group starts with the same seats, and a share of one block is refused.
TEST_CASE("batch layout: groups do not depend on each other") {
  BatchLayout layout(0, 2, {4, 2}, kCopies);
  layout.check();
  const Seat first = layout.next(Engine::sendQueue(1));
  CHECK(layout.next(Engine::sendQueue(1)) > first);
  layout.clear();
  CHECK(layout.next(Engine::sendQueue(1)) == first);
  CHECK_THROWS_AS(BatchLayout(0, 2, {2, 2}, kCopies).check(), Error);
}

} // namespace rondo::test
