// Interprets plans: lanes take turns, one step at a time, until all are done or none can go on.
#include "oracle.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <vector>

namespace rondo::test {
namespace {

using namespace plan;
using Numbers = std::vector<std::uint64_t>;

/// Thrown for plans that no engine can run, or that give a wrong result.
struct Wrong {
  std::string what;
};

/// Memory of one rank for one tile.
struct Tile {
  Numbers input, output, scratch;
  bool shared =
      false; ///< in place: the smaller of input and output is the rank's block of the other
};

class Run {
 public:
  Run(std::span<const RankPlan> plans, const Schedule& schedule, Random& random)
      : plans_(plans), schedule_(schedule), random_(random), spec_(plans[0].spec) {
    for (std::size_t r = 0; r < plans.size(); ++r) {
      if (plans[r].chunks_per_block == 0) throw Wrong{"no chunks"};
      if (plans[r].message_chunks != plans[0].message_chunks) throw Wrong{"tiles differ"};
      for (std::size_t l = 0; l < plans[r].lanes.size(); ++l) lanes_.push_back({r, l});
      entered_.push_back(false);
      met_.push_back(0);
      windows_.push_back(randomNumbers(start(plans[r], plans[r].window_chunks)));
      tiles_.emplace_back();
      inputs_.emplace_back();
      for (int t = 0; t < schedule.tiles; ++t) addTile(r);
    }
  }

  void toTheEnd() {
    std::vector<std::size_t> ranking(lanes_.size());
    std::iota(ranking.begin(), ranking.end(), 0);
    std::shuffle(ranking.begin(), ranking.end(), random_);
    if (schedule_.order == Schedule::Order::late_rank) {
      const auto late = below(random_, plans_.size());
      std::stable_partition(ranking.begin(), ranking.end(),
                            [&](std::size_t l) { return lanes_[l].rank != late; });
    }
    checkBarrier();
    for (;;) {
      std::vector<std::size_t> ready;
      for (const auto l : ranking) {
        if (canGoOn(lanes_[l])) ready.push_back(l);
      }
      if (ready.empty()) break;
      if (schedule_.order == Schedule::Order::late_rank) {
        // Any other lane; the late rank comes last in the ranking.
        const auto late = lanes_[ranking.back()].rank;
        std::size_t others = 0;
        while (others < ready.size() && lanes_[ready[others]].rank != late) ++others;
        if (others > 0) ready.resize(others);
      }
      const bool fair = schedule_.order != Schedule::Order::priorities;
      goOn(lanes_[fair ? ready[below(random_, ready.size())] : ready[0]]);
      checkBarrier();
    }
    for (const LaneState& lane : lanes_) {
      if (!done(lane)) throw Wrong{"stuck"};
    }
    for (const auto& [channel, messages] : wires_) {
      if (!messages.empty()) throw Wrong{"a message is left over"};
    }
    checkResults();
  }

 private:
  struct LaneState {
    std::size_t rank, lane;
    std::size_t tile = 0, step = 0;
  };

  Numbers randomNumbers(std::size_t size) {
    Numbers numbers(size);
    for (auto& n : numbers) n = random_();
    return numbers;
  }

  void addTile(std::size_t r) {
    const RankPlan& plan = plans_[r];
    const auto n = schedule_.count;
    Tile tile;
    tile.input = randomNumbers(inputBlocks(plan.spec, static_cast<int>(r)) * n);
    tile.output = randomNumbers(outputBlocks(plan.spec, static_cast<int>(r)) * n);
    tile.scratch = randomNumbers(start(plan, plan.scratch_chunks));
    inputs_[r].push_back(tile.input);
    tile.shared = schedule_.in_place && traits(spec_.collective).in_place && !tile.input.empty() &&
                  !tile.output.empty();
    if (tile.shared && tile.output.size() > tile.input.size()) {
      std::copy(tile.input.begin(), tile.input.end(),
                tile.output.begin() + static_cast<long>(r * n));
    }
    tiles_[r].push_back(std::move(tile));
  }

  /// First element of a chunk.
  std::size_t start(const RankPlan& plan, std::size_t chunk) const {
    const std::size_t k = plan.chunks_per_block, n = schedule_.count;
    return chunk / k * n + chunk % k * n / k;
  }

  std::span<std::uint64_t> memory(const RankPlan& plan, std::size_t tile, const Piece& piece) {
    const auto rank = static_cast<std::size_t>(plan.rank);
    Tile& t = tiles_[rank][tile];
    const auto n = schedule_.count;
    std::span<std::uint64_t> space = t.scratch;
    std::size_t size = plan.scratch_chunks;
    if (piece.space == Space::window) {
      space = windows_[rank];
      size = plan.window_chunks;
    } else if (piece.space == Space::input) {
      space = t.input;
      size = inputBlocks(plan.spec, plan.rank) * plan.chunks_per_block;
      if (t.shared && t.output.size() > t.input.size()) {
        space = std::span(t.output).subspan(rank * n, n);
      }
    } else if (piece.space == Space::output) {
      space = t.output;
      size = outputBlocks(plan.spec, plan.rank) * plan.chunks_per_block;
      if (t.shared && t.output.size() <= t.input.size()) {
        space = std::span(t.input).subspan(t.output.size() < t.input.size() ? rank * n : 0, n);
      }
    }
    if (std::size_t{piece.chunk} + piece.count > size) throw Wrong{"outside of a space"};
    const auto first = start(plan, piece.chunk), end = start(plan, piece.chunk + piece.count);
    return space.subspan(first, end - first);
  }

  const Channel& channel(const RankPlan& plan, int index, bool sends) const {
    if (index < 0 || static_cast<std::size_t>(index) >= plan.channels.size()) {
      throw Wrong{"no such channel"};
    }
    const Channel& c = plan.channels[static_cast<std::size_t>(index)];
    if ((sends ? c.src : c.dst) != plan.rank) throw Wrong{"the wrong end of a channel"};
    return c;
  }

  bool done(const LaneState& lane) const {
    return lane.tile == static_cast<std::size_t>(schedule_.tiles) ||
           plans_[lane.rank].lanes[lane.lane].steps.empty();
  }

  bool canGoOn(const LaneState& lane) {
    if (done(lane)) return false;
    const RankPlan& plan = plans_[lane.rank];
    const Step& step = plan.lanes[lane.lane].steps[lane.step];
    for (const Dependency& d : step.after) {
      if (d.lane >= plan.lanes.size() || d.step >= plan.lanes[d.lane].steps.size()) {
        throw Wrong{"waits for a step that is none"};
      }
      const auto at = std::find_if(lanes_.begin(), lanes_.end(), [&](const LaneState& other) {
        return other.rank == lane.rank && other.lane == d.lane;
      });
      if (at->tile < lane.tile || (at->tile == lane.tile && at->step <= d.step)) return false;
    }
    for (std::size_t r = 0; step.is_barrier && r < plans_.size(); ++r)
      if (!comesTo(r, met_[lane.rank])) return false;
    std::map<Channel, std::size_t> needed;
    for (const Operand& operand : step.inputs) {
      if (!operand.local()) ++needed[channel(plan, operand.channel, false)];
    }
    for (const auto& [c, messages] : needed) {
      if (wires_[c].size() < messages) return false;
    }
    needed.clear();
    for (const int index : step.sends) ++needed[channel(plan, index, true)];
    for (const auto& [c, messages] : needed) {
      if (wires_[c].size() + messages > static_cast<std::size_t>(schedule_.depth)) return false;
    }
    return true;
  }

  /// Whether a rank has reached the barrier of this number, or has passed it.
  bool comesTo(std::size_t rank, std::size_t meeting) const {
    const auto stands = [&](const LaneState& lane) {
      return lane.rank == rank && !done(lane) &&
             plans_[rank].lanes[lane.lane].steps[lane.step].is_barrier;
    };
    return met_[rank] > meeting ||
           (met_[rank] == meeting && std::any_of(lanes_.begin(), lanes_.end(), stands));
  }

  void advance(LaneState& lane) {
    entered_[lane.rank] = true;
    if (++lane.step < plans_[lane.rank].lanes[lane.lane].steps.size()) return;
    lane.step = 0;
    ++lane.tile;
  }

  void goOn(LaneState& lane) {
    const RankPlan& plan = plans_[lane.rank];
    const Step& step = plan.lanes[lane.lane].steps[lane.step];
    if (step.is_barrier) {
      ++met_[lane.rank];
      return advance(lane);
    }
    if (step.inputs.empty()) throw Wrong{"no input"};
    const std::size_t size =
        start(plan, step.shape.chunk + step.shape.count) - start(plan, step.shape.chunk);
    const auto fitting = [&](std::size_t is) {
      if (is != size) throw Wrong{"sizes differ"};
    };
    Numbers value(size);
    const auto add = [&](std::span<const std::uint64_t> more) {
      fitting(more.size());
      for (std::size_t i = 0; i < size; ++i) value[i] += more[i];
    };
    bool wired = !step.sends.empty();
    for (const Operand& operand : step.inputs) wired = wired || !operand.local();
    if (wired && step.shape.count > plan.message_chunks)
      throw Wrong{"a message larger than its slot"};
    for (const Operand& operand : step.inputs) {
      if (operand.of_all) {
        for (const RankPlan& other : plans_) add(memory(other, 0, operand.piece));
      } else if (operand.local()) {
        add(memory(plan, lane.tile, operand.piece));
      } else {
        auto& messages = wires_[channel(plan, operand.channel, false)];
        add(messages.front());
        messages.pop_front();
      }
    }
    for (const RankPlan& other : plans_) {
      if (!step.output || (other.rank != plan.rank && !step.to_all)) continue;
      const auto to = memory(other, lane.tile, *step.output);
      fitting(to.size());
      std::copy(value.begin(), value.end(), to.begin());
    }
    for (const int index : step.sends) wires_[channel(plan, index, true)].push_back(value);
    advance(lane);
  }

  /// No rank may leave before all have entered.
  void checkBarrier() const {
    if (spec_.collective != Collective::barrier || plans_.size() == 1) return;
    if (std::all_of(entered_.begin(), entered_.end(), [](bool entered) { return entered; })) return;
    for (std::size_t r = 0; r < plans_.size(); ++r) {
      const bool left = std::all_of(lanes_.begin(), lanes_.end(), [&](const LaneState& lane) {
        return lane.rank != r || done(lane);
      });
      if (left) throw Wrong{"left the barrier early"};
    }
  }

  void checkResults() {
    if (spec_.collective == Collective::barrier) return;
    for (std::size_t r = 0; r < plans_.size(); ++r) {
      for (std::size_t t = 0; t < tiles_[r].size(); ++t) {
        const Numbers wanted = wantedOutput(r, t);
        if (wanted.empty()) continue;
        const auto blocks = static_cast<std::uint32_t>(wanted.size() / schedule_.count);
        const auto got =
            memory(plans_[r], t, {Space::output, 0, blocks * plans_[r].chunks_per_block});
        if (!std::equal(wanted.begin(), wanted.end(), got.begin(), got.end())) {
          throw Wrong{"a wrong result"};
        }
        if (!tiles_[r][t].shared && tiles_[r][t].input != inputs_[r][t]) {
          throw Wrong{"input was written"};
        }
      }
    }
  }

  /// The output as the table of collectives defines it.
  Numbers wantedOutput(std::size_t r, std::size_t t) const {
    const auto n = schedule_.count;
    const int rank = static_cast<int>(r);
    const detail::CollectiveTraits& of = traits(spec_.collective);
    const std::size_t first = of.input.own(rank) * n;
    Numbers wanted(outputBlocks(spec_, rank) * n);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const detail::RankRange from =
          of.contributorsTo(rank, static_cast<int>(i / n), spec_.root, spec_.ranks);
      for (int q = from.first; q < from.end; ++q)
        wanted[i] += inputs_[static_cast<std::size_t>(q)][t][first + i % n];
    }
    return wanted;
  }

  std::span<const RankPlan> plans_;
  const Schedule& schedule_;
  Random& random_;
  const Spec spec_;
  std::vector<LaneState> lanes_;
  std::vector<bool> entered_;
  std::vector<std::size_t> met_;             ///< number of barriers of each rank so far
  std::vector<Numbers> windows_;             ///< of each rank, for all tiles
  std::vector<std::vector<Tile>> tiles_;     ///< [rank][tile]
  std::vector<std::vector<Numbers>> inputs_; ///< [rank][tile], unchanged
  std::map<Channel, std::deque<Numbers>> wires_;
};

} // namespace

std::string run(std::span<const RankPlan> plans, const Schedule& schedule, Random& random) {
  try {
    Run(plans, schedule, random).toTheEnd();
    return {};
  } catch (const Wrong& wrong) {
    return wrong.what;
  }
}

std::string runMany(std::span<const RankPlan> plans, int runs, Random& random) {
  constexpr int kDepths[] = {1, 2, 8};
  using Order = Schedule::Order;
  constexpr Order kOrders[] = {Order::priorities, Order::late_rank, Order::fair};
  const std::uint64_t k = std::max<std::uint64_t>(plans[0].chunks_per_block, 1);
  for (int i = 0; i < runs; ++i) {
    const Schedule schedule{.depth = kDepths[i % 3],
                            .tiles = i % 5 == 0 ? 3 : 1,
                            .in_place = i % 2 == 1,
                            .count = 1 + below(random, 2 * k + 1),
                            .order = kOrders[i / 6 % 3]};
    const std::string problem = run(plans, schedule, random);
    if (!problem.empty()) return problem;
  }
  return {};
}

} // namespace rondo::test
