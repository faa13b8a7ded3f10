// Turns plans into programs, and finds equal ones by their hashes.
#include "model/program.h"

#include <algorithm>
#include <compare>

#include "model/simulate.h"
#include "rondo/error.h"

namespace rondo::model {

namespace {

template <typename Value>
bool same(const std::vector<Value>& a, const std::vector<Value>& b) {
  return a == b;
}
bool sameOps(const std::vector<Op>& a, const std::vector<Op>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Op& x, const Op& y) {
    return x.chunks == y.chunks && x.refs == y.refs && x.receives == y.receives &&
           x.sends == y.sends && x.after == y.after && x.afters == y.afters &&
           x.locals == y.locals && x.output == y.output && x.lasting == y.lasting &&
           x.own_copy == y.own_copy && x.barrier == y.barrier && x.reads_all == y.reads_all &&
           x.writes_all == y.writes_all;
  });
}

bool lasting(const plan::Piece& piece, const plan::RankPlan& plan) {
  return (piece.space == plan::Space::input || piece.space == plan::Space::output) &&
         piece.chunk % plan.chunks_per_block + piece.count <= plan.chunks_per_block;
}

/// The most that all ranks' plans may have together; more takes gigabytes or minutes.
constexpr std::size_t kMostChannels = 50'000'000, kMostSteps = 200'000'000;
/// The most steps in all different programs, which stay in memory: 50 to 100 bytes a step.
constexpr std::size_t kMostKept = 30'000'000;
constexpr double kMostBlocks = 5e7;

class Compiler {
 public:
  explicit Compiler(const plan::RankPlan& plan)
      : plan_(plan), place_(plan.channels.size()), lane_of_(plan.channels.size()) {}

  Program take() {
    program_.chunks_per_block = plan_.chunks_per_block;
    program_.scratch = plan_.scratch_chunks > 0;
    for (std::uint32_t lane = 0; lane < plan_.lanes.size(); ++lane)
      for (const plan::Step& step : plan_.lanes[lane].steps) {
        for (const plan::Operand& input : step.inputs)
          if (!input.local()) lane_of_[static_cast<std::size_t>(input.channel)] = lane;
        for (const int channel : step.sends) lane_of_[static_cast<std::size_t>(channel)] = lane;
      }
    addPorts();
    for (const plan::Lane& lane : plan_.lanes) {
      program_.lanes.push_back(static_cast<std::uint32_t>(program_.ops.size()));
      for (const plan::Step& step : lane.steps) add(step);
    }
    program_.lanes.push_back(static_cast<std::uint32_t>(program_.ops.size()));
    return std::move(program_);
  }

 private:
  void addPorts() {
    struct Place {
      std::uint32_t away;
      int index;
      std::size_t channel;
      auto operator<=>(const Place&) const = default;
    };
    std::vector<Place> order;
    for (std::size_t c = 0; c < plan_.channels.size(); ++c) {
      const plan::Channel& channel = plan_.channels[c];
      order.push_back(
          {distance(channel.src == plan_.rank ? channel.dst : channel.src), channel.index, c});
    }
    std::sort(order.begin(), order.end());
    for (const auto& [away, index, c] : order) {
      auto& ports = plan_.channels[c].src == plan_.rank ? program_.outs : program_.ins;
      place_[c] = static_cast<std::uint32_t>(ports.size());
      ports.push_back({away, index, lane_of_[c]});
    }
  }

  std::uint32_t distance(int peer) const {
    const int p = plan_.spec.ranks;
    if (peer < 0 || peer >= p)
      throw Error(ErrorCode::invalid_argument,
                  "the plan of rank " + std::to_string(plan_.rank) + " uses a channel to rank " +
                      std::to_string(peer) + " of " + std::to_string(p));
    return static_cast<std::uint32_t>((peer - plan_.rank + p) % p);
  }

  void add(const plan::Step& step) {
    Op op;
    op.chunks = step.shape.count;
    op.refs = static_cast<std::uint32_t>(program_.refs.size());
    for (const plan::Operand& input : step.inputs) {
      op.reads_all = op.reads_all || input.of_all;
      if (input.local()) {
        ++op.locals;
        continue;
      }
      program_.refs.push_back(place_[static_cast<std::size_t>(input.channel)]);
      ++op.receives;
    }
    for (const int channel : step.sends)
      program_.refs.push_back(place_[static_cast<std::size_t>(channel)]);
    op.sends = static_cast<std::uint32_t>(step.sends.size());
    op.after = static_cast<std::uint32_t>(program_.after.size());
    op.afters = static_cast<std::uint32_t>(step.after.size());
    for (const plan::Dependency& after : step.after)
      program_.after.push_back({after.lane, after.step});
    op.output = step.output.has_value();
    op.lasting = step.output ? lasting(*step.output, plan_)
                             : step.inputs.size() == 1 && step.inputs[0].local() &&
                                   lasting(step.inputs[0].piece, plan_);
    op.own_copy = step.output && step.output->space == plan::Space::output &&
                  step.inputs.size() == 1 && step.inputs[0].local() &&
                  step.inputs[0].piece.space == plan::Space::input;
    op.barrier = step.is_barrier;
    op.writes_all = step.to_all;
    program_.ops.push_back(op);
  }

  const plan::RankPlan& plan_;
  std::vector<std::uint32_t> place_, lane_of_; ///< by channel of the plan
  Program program_;
};

std::uint64_t hashOf(const Program& program) {
  std::uint64_t hash = 14695981039346656037u;
  const auto mix = [&](std::uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  for (const Op& op : program.ops)
    mix(op.chunks + (std::uint64_t{op.refs} << 20) + (std::uint64_t{op.sends} << 50));
  for (const std::uint32_t ref : program.refs) mix(ref);
  for (const Program::Port& port : program.outs) mix(port.distance);
  return hash;
}

} // namespace

bool Program::operator==(const Program& other) const {
  return chunks_per_block == other.chunks_per_block && scratch == other.scratch &&
         same(lanes, other.lanes) && sameOps(ops, other.ops) && same(refs, other.refs) &&
         same(after, other.after) && same(ins, other.ins) && same(outs, other.outs);
}

bool Program::switched() const {
  return std::any_of(ops.begin(), ops.end(),
                     [](const Op& op) { return op.reads_all || op.writes_all; });
}

std::size_t Program::findOut(std::uint32_t distance, int index) const {
  const auto found = std::lower_bound(
      outs.begin(), outs.end(), std::pair(distance, index),
      [](const Port& port, const auto& key) { return std::pair(port.distance, port.index) < key; });
  const bool there = found != outs.end() && found->distance == distance && found->index == index;
  return there ? static_cast<std::size_t>(found - outs.begin()) : outs.size();
}

Sent sentBy(const Program& program) {
  Sent sent;
  for (const Op& op : program.ops) {
    sent.chunks += static_cast<double>(op.chunks) * op.sends;
    sent.messages += op.sends;
  }
  return sent;
}

Programs::Programs(const plan::Algorithm& algorithm, const plan::Spec& spec) {
  // Even one plan of such a call may take minutes to build.
  if (algorithm.closedForm(spec).total_sent > kMostBlocks)
    throw TooLarge("more than 50 million blocks to send");
  for (int rank = 0; rank < spec.ranks; ++rank) add(algorithm.build(spec, rank));
}

Programs::Programs(std::span<const plan::RankPlan> plans) {
  for (const plan::RankPlan& plan : plans) add(plan);
}

void Programs::add(const plan::RankPlan& plan) {
  if (of_.empty()) first_ = plan;
  channels_ += plan.channels.size();
  for (const plan::Lane& lane : plan.lanes) steps_ += lane.steps.size();
  if (channels_ > kMostChannels) throw TooLarge("more than 50 million channels to simulate");
  if (steps_ > kMostSteps) throw TooLarge("more than 200 million steps to simulate");
  Program program = Compiler(plan).take();
  const std::uint64_t hash = hashOf(program);
  const auto [begin, end] = known_.equal_range(hash);
  const auto found =
      std::find_if(begin, end, [&](const auto& entry) { return all_[entry.second] == program; });
  if (found != end) {
    of_.push_back(found->second);
    return;
  }
  kept_ += program.ops.size();
  if (kept_ > kMostKept)
    throw TooLarge("the ranks' different programs have more than 30 million steps");
  of_.push_back(static_cast<std::uint32_t>(all_.size()));
  known_.emplace(hash, of_.back());
  all_.push_back(std::move(program));
}

} // namespace rondo::model
