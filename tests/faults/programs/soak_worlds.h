// The schedule of a soak run: a list of worlds. A world is a job whose ranks do rounds. A seed
// determines everything, so the driver and every rank know the schedule without messages.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "rondo/transports.h"
#include "support/collective_case.h"

namespace rondo::test {

/// What happens in a round. In rounds that break, all ranks call until the communicator fails, and
/// then shrink it.
enum class What {
  calls,
  split,          ///< calls in communicators from split()
  pause,          ///< a rank is stopped for less than three heartbeats
  delay,          ///< a rank enters its calls late
  leave,          ///< a rank destroys its communicator and exits
  abort,          ///< a rank aborts
  kill,           ///< ranks are killed during calls
  kill_in_split,  ///< ranks are killed while all split
  kill_in_shrink, ///< one rank is killed, and others while its survivors shrink
  freeze,         ///< a rank is stopped until the others have shrunk, and must then end by itself
};

struct Row {
  What what;
  const char* name;
  unsigned weight;
  int fewest_ranks;
  bool breaks;
  bool in_long_worlds; ///< which keep their ranks, so that what leaks adds up
};

/// One row for each kind of round.
inline constexpr auto kRows = std::to_array<Row>({
    {What::calls, "calls", 30, 1, false, true},
    {What::split, "split", 12, 1, false, true},
    {What::pause, "pause", 5, 2, false, true},
    {What::delay, "delay", 5, 1, false, true},
    {What::leave, "leave", 4, 2, false, false},
    {What::abort, "abort", 12, 1, true, true},
    {What::kill, "kill", 12, 2, true, false},
    {What::kill_in_split, "kill-in-split", 5, 2, true, false},
    {What::kill_in_shrink, "kill-in-shrink", 6, 3, true, false},
    {What::freeze, "freeze", 2, 3, true, false},
});
constexpr const Row& row(What what) { return kRows[static_cast<std::size_t>(what)]; }
static_assert([] {
  for (std::size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].what != static_cast<What>(i)) return false;
  return true;
}());

using Microseconds = std::chrono::microseconds;

struct Round {
  What what = What::calls;
  /// Ranks of the job, in ascending order: who takes part; who is no member afterwards.
  std::vector<int> members, lost;
  int actor = 0;                    ///< the member that pauses, is late, leaves or aborts
  std::vector<Microseconds> delays; ///< from the start of the round to each signal or abort
  Microseconds length{};            ///< of a pause
  bool agree = true;                ///< by shrink(); else shrink(excluded)
  bool overlap = false;             ///< the calls are in flight together
  std::vector<CollectiveCase> calls;
  std::vector<int> colors, keys; ///< of each member

  std::string text() const {
    std::string line = std::string(row(what).name) + ", members";
    for (const int rank : members) line += " " + std::to_string(rank);
    line += ", lost";
    for (std::size_t i = 0; i < lost.size(); ++i)
      line += " " + std::to_string(lost[i]) + " after " + std::to_string(delays[i].count()) + " us";
    return line + ", actor " + std::to_string(actor) + (agree ? ", agree" : ", exclude");
  }
};

struct World {
  int index = 0, ranks = 1;
  bool is_long = false;
  std::string transports;
  int ranks_per_node = 0; ///< 0: all ranks are on one node
  bool deterministic = false, checksum = false;
  std::vector<Round> rounds;

  std::string text() const {
    return "world " + std::to_string(index) + ": " + std::to_string(ranks) + " ranks, " +
           transports + (ranks_per_node > 0 ? ", nodes of " + std::to_string(ranks_per_node) : "") +
           (deterministic ? ", deterministic" : "") + (checksum ? ", checksums" : "") + ", " +
           std::to_string(rounds.size()) + " rounds";
  }
};

/// Makes worlds. Two makers with the same seed and index make equal ones.
class Maker {
 public:
  Maker(std::uint64_t seed, int index)
      : random_(seed * 1'000'003 + static_cast<std::uint64_t>(index)) {
    world_.index = index;
  }

  World make() {
    world_.is_long = chance(5);
    world_.ranks = world_.is_long || !chance(5) ? 2 + below(7) : 9 + below(8);
    world_.transports = pick(transports());
    const bool may_span_nodes = world_.ranks > 2 && world_.transports != "shm";
    if (may_span_nodes && chance(3)) world_.ranks_per_node = 1 + below(world_.ranks / 2);
    world_.deterministic = chance(4);
    world_.checksum = chance(4);
    std::vector<int> members;
    for (int rank = 0; rank < world_.ranks; ++rank) members.push_back(rank);
    const int rounds = world_.is_long ? 100 : 12 + below(24);
    for (int i = 0; i < rounds; ++i) {
      const Round& round = world_.rounds.emplace_back(makeRound(members));
      std::erase_if(members, [&](int rank) {
        return std::find(round.lost.begin(), round.lost.end(), rank) != round.lost.end();
      });
    }
    return world_;
  }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  bool chance(int one_in) { return below(one_in) == 0; }
  template <class T>
  T pick(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(below(static_cast<int>(values.size())))];
  }
  Microseconds delay(int longest_ms) { return Microseconds(below(longest_ms * 1000 + 1)); }

  static std::vector<std::string> transports() {
    std::vector<std::string> names{"shm", "tcp", "shm,tcp"};
    for (const TransportInfo& transport : rondo::transports())
      if (transport.name == "ucx" && transport.missing.empty() && std::getenv("SOAK_UCX"))
        names.push_back("ucx");
    return names;
  }

  What makeKind(int members) {
    const auto possible = [&](const Row& row) {
      return members >= row.fewest_ranks && (row.in_long_worlds || !world_.is_long);
    };
    unsigned sum = 0;
    for (const Row& row : kRows) sum += possible(row) ? row.weight : 0;
    auto at = static_cast<unsigned>(random_() % sum);
    for (const Row& row : kRows) {
      if (!possible(row)) continue;
      if (at < row.weight) return row.what;
      at -= row.weight;
    }
    return What::calls;
  }

  Round makeRound(const std::vector<int>& members) {
    const int size = static_cast<int>(members.size());
    Round round;
    round.members = members;
    round.what = makeKind(size);
    // The lowest rank hosts the control plane.
    round.actor = chance(3) ? members.front() : pick(members);
    // A frozen rank cannot be waited for, and in kill_in_shrink it is the shrink that is killed.
    round.agree = round.what == What::kill_in_shrink || round.what == What::freeze || chance(2);
    round.overlap = chance(4);
    round.length = std::chrono::milliseconds(200 + below(800));
    for (int i = 0; i < size; ++i) {
      round.colors.push_back(below(4) - 1);
      round.keys.push_back(below(5));
    }
    for (int i = 4 + below(12); i > 0; --i) round.calls.push_back(makeCall(size));
    round.lost = makeLost(round);
    const std::size_t delays = std::max<std::size_t>(round.lost.size(), 1);
    for (std::size_t i = 0; i < delays; ++i) round.delays.push_back(delay(40));
    if (round.what == What::kill_in_shrink)
      for (std::size_t i = 1; i < delays; ++i) round.delays[i] = round.delays[0] + delay(25);
    return round;
  }

  std::vector<int> makeLost(const Round& round) {
    const int size = static_cast<int>(round.members.size());
    int count = 0;
    switch (round.what) {
      case What::leave:
      case What::freeze: return {round.actor};
      case What::kill:
      case What::kill_in_split: count = chance(4) ? 1 + below(size - 1) : 1; break;
      case What::kill_in_shrink: count = chance(4) ? 2 + below(size - 2) : 2; break;
      default: return {};
    }
    // If all eight candidates of the control plane die at once, no rank takes it over.
    count = std::min(count, 7);
    std::vector<int> lost{round.actor};
    while (static_cast<int>(lost.size()) < count)
      if (const int rank = pick(round.members);
          std::find(lost.begin(), lost.end(), rank) == lost.end())
        lost.push_back(rank);
    return lost;
  }

  CollectiveCase makeCall(int ranks) {
    CollectiveCase call;
    do {
      call.collective = kCollectives[random_() % kCollectiveCount];
      call.type = kDataTypes[random_() % kDataTypeCount];
      call.op = kReduceOps[random_() % ReduceOp::kKindCount];
    } while (!exact(call, ranks));
    call.count = makeCount(ranks);
    call.root = below(ranks);
    call.in_place = chance(2) && traits(call.collective).in_place;
    call.async = chance(3);
    return call;
  }

  /// Whether every order of reducing gives the same bits, also with fewer ranks, see
  /// CollectiveCase.
  static bool exact(const CollectiveCase& call, int ranks) {
    if (!reduces(call.collective)) return true;
    if (!call.op.supports(call.type)) return false;
    if (call.op.kind() == ReduceOp::Kind::avg && isFloat(call.type)) return false;
    return ranks <= 8 || sizeOf(call.type) >= 4;
  }

  std::size_t makeCount(int ranks) {
    const auto upTo = [&](int most) { return static_cast<std::size_t>(below(most + 1)); };
    switch (below(10)) {
      case 0: return upTo(2);
      case 1:
      case 2: return upTo(64);
      case 9: return ranks <= 4 && chance(6) ? upTo(1 << 20) : upTo(1 << 16);
      default: return upTo(8000);
    }
  }

  std::mt19937_64 random_;
  World world_;
};

inline World makeWorld(std::uint64_t seed, int index) { return Maker(seed, index).make(); }

} // namespace rondo::test
