// Prepares a simulation: sizes of tiles, places of ranks, channels.
#include "model/simulate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "model/program.h"
#include "model/simulator.h"
#include "plan/lend.h"
#include "plan/tiles.h"

namespace rondo::model {

namespace {

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorCode::invalid_argument, reason);
}

/// Messages or steps of all simulated ranks and tiles.
constexpr double kMostMessages = 2e8;

/// The kinds of links that the ranks of a layout use, from the nearest on; at least one.
std::vector<const LinkProfile*> linksOf(const plan::Spec& spec, const Network& network) {
  static const LinkProfile unused;
  const auto nodes = spec.layout.nodes();
  std::vector<const LinkProfile*> links;
  if (spec.ranks == 1) {
    const auto& inside = network.profile->links[static_cast<std::size_t>(network.inside)];
    return {inside ? &*inside : &unused};
  }
  if (nodes.size() <= 1 ||
      std::any_of(nodes.begin(), nodes.end(), [](const auto& node) { return node.size() > 1; }))
    links.push_back(&network.profile->link(network.inside));
  if (nodes.size() > 1) links.push_back(&network.profile->link(network.between));
  return links;
}

/// In a one-way call both ranks copy a large message together, in parts of kSharedPart bytes,
/// unless ranks share processors. This takes at most as long as sending the parts one after the
/// other. The simulation assumes the latter, for blocks of up to kSharedBlock bytes.
constexpr double kSharedPart = 32 << 10, kSharedBlock = 1 << 20;

/// `spec`: with the layout of the ranks, which an imported plan does not have.
Sizes sizesOf(const plan::Spec& spec, const plan::RankPlan& plan, const Blocks& blocks,
              const Network& network) {
  Sizes sizes{.element = sizeOf(blocks.type)};
  if (!traits(spec.collective).movesData() || blocks.bytes <= 0) return sizes;
  const auto element = static_cast<double>(sizes.element);
  const double count = std::max(blocks.bytes / element, 1.0);
  if (count > 1e15) {
    char bytes[64];
    std::snprintf(bytes, sizeof bytes, "%.4g", blocks.bytes);
    refuse("a block of " + std::string(bytes) + " bytes is too large");
  }
  double slot = std::numeric_limits<double>::infinity();
  bool network_channels = false;
  for (const LinkProfile* link : linksOf(spec, network)) {
    slot = std::min(slot, link->slot_bytes);
    network_channels = network_channels || !link->mapped;
  }
  if (!network_channels && (network.processors == 0 || network.processors >= spec.ranks) &&
      plan::movesOneWay(spec.collective) && count * element <= kSharedBlock)
    slot = std::min(slot, kSharedPart);
  const plan::CallShape shape{.count = static_cast<std::size_t>(std::ceil(count)),
                              .type = blocks.type};
  const std::size_t limit =
      plan::messageElements(plan, shape, static_cast<std::size_t>(slot), network_channels);
  const std::size_t tile = plan::tileElements(plan, shape, limit);
  sizes.block = count * element;
  sizes.in_place = blocks.in_place && traits(spec.collective).in_place;
  sizes.tiles = std::max<std::size_t>((shape.count + tile - 1) / tile, 1);
  sizes.full = static_cast<double>(tile) * element;
  sizes.last = sizes.block - static_cast<double>(sizes.tiles - 1) * sizes.full;
  return sizes;
}

/// Messages that the first ranks send in a tile.
double messagesOf(const Programs& programs, int ranks) {
  double messages = 0;
  for (int rank = 0; rank < ranks; ++rank)
    messages += static_cast<double>(sentBy(programs.of(rank)).messages);
  return messages;
}

void checkWork(const Programs& programs, const Sizes& sizes, int ranks) {
  double steps = 0;
  for (int rank = 0; rank < ranks; ++rank)
    steps += static_cast<double>(programs.of(rank).ops.size());
  const auto tiles = static_cast<double>(sizes.tiles);
  if (messagesOf(programs, ranks) * tiles > kMostMessages)
    throw TooLarge("more than 200 million messages to simulate");
  if (steps * tiles > kMostMessages) throw TooLarge("more than 200 million steps to simulate");
}

} // namespace

void check(const Conditions& conditions, int ranks) {
  const auto exists = [&](int rank) {
    if (rank < 0 || rank >= ranks)
      refuse("there is no rank " + std::to_string(rank) + "; ranks are 0 to " +
             std::to_string(ranks - 1));
  };
  for (const auto& one : conditions.stragglers) {
    exists(one.rank);
    if (!(one.delay >= 0) || !(one.factor > 0))
      refuse("a straggler needs a delay >= 0 and a factor > 0");
  }
  for (const auto& one : conditions.slow_links) {
    exists(one.src);
    exists(one.dst);
    if (!(one.factor > 0)) refuse("a slow link needs a factor > 0");
  }
}

Simulator::Simulator(const Programs& programs, const plan::Spec& spec, const Network& network,
                     const LinkProfile& nearest, const Sizes& sizes, std::uint32_t ranks,
                     const Observer& observer)
    : sizes_(sizes),
      all_(static_cast<std::uint32_t>(spec.ranks)),
      observer_(observer),
      turn_(network.profile->turn),
      meeting_alpha_(nearest.alpha),
      nearest_(nearest),
      places_(ranks) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    programs_.push_back(&programs.of(static_cast<int>(rank)));
  placeRanks(spec, network);
  connect(network);
  applyConditions(network.conditions);
}

void Simulator::placeRanks(const plan::Spec& spec, const Network& network) {
  struct Node {
    std::uint32_t ranks = 0, placed = 0, cores = 0, first_core = 0;
  };
  std::map<std::uint32_t, Node> placed;
  for (std::uint32_t rank = 0; rank < places_.size(); ++rank) {
    if (!spec.layout.groups.empty())
      places_[rank].node = static_cast<std::uint32_t>(spec.layout.groups[0][rank]);
    ++placed[places_[rank].node].ranks;
  }
  std::uint32_t cores = 0;
  for (auto& [number, node] : placed) {
    node.cores = network.processors == 0
                     ? node.ranks
                     : std::min(node.ranks, static_cast<std::uint32_t>(network.processors));
    node.first_core = std::exchange(cores, cores + node.cores);
  }
  cores_.resize(cores);
  std::uint32_t channels = 0, ins = 0, nodes = 1;
  for (std::uint32_t rank = 0; rank < places_.size(); ++rank) {
    Place& place = places_[rank];
    const Program& program = *programs_[rank];
    nodes = std::max(nodes, place.node + 1);
    Node& node = placed[place.node];
    const std::uint32_t before = node.placed++;
    place.core = node.first_core + before % node.cores;
    place.seat = before / node.cores;
    place.first_lane = static_cast<std::uint32_t>(lanes_.size());
    place.lanes = static_cast<std::uint32_t>(program.lanes.size() - 1);
    place.first_out = channels;
    place.first_in = ins;
    channels += static_cast<std::uint32_t>(program.outs.size());
    ins += static_cast<std::uint32_t>(program.ins.size());
    const int r = static_cast<int>(rank);
    const double set = sizes_.block * (plan::inputBlocks(spec, r) + plan::outputBlocks(spec, r));
    place.copy = network.profile->copy.at(set);
    place.penalty = network.profile->memory.at(set);
    place.reduce = network.profile->reduceOf(sizes_.element).at(set);
    for (std::uint32_t lane = 0; lane < place.lanes; ++lane) {
      Lane& added = lanes_.emplace_back();
      added.rank = rank;
      added.number = lane;
      added.op = program.lanes[lane];
      added.ended = added.op == program.lanes[lane + 1];
      place.working += !added.ended;
    }
    Core& core = cores_[place.core];
    if (core.ranks++ == 0) core.last = rank;
  }
  channels_.resize(channels);
  ins_.resize(ins);
  waiters_.resize(lanes_.size());
  out_.resize(places_.size() + nodes);
  in_.resize(places_.size() + nodes);
}

const LinkProfile& Simulator::linkBetween(std::uint32_t a, std::uint32_t b,
                                          const Network& network) const {
  return network.profile->link(places_[a].node == places_[b].node ? network.inside
                                                                  : network.between);
}

/// Both ends of a channel find each other by distance and index.
void Simulator::connect(const Network& network) {
  const auto simulated = static_cast<std::uint32_t>(places_.size());
  for (std::uint32_t dst = 0; dst < simulated; ++dst) {
    const Program& program = *programs_[dst];
    for (std::uint32_t i = 0; i < program.ins.size(); ++i) {
      const Program::Port& port = program.ins[i];
      const std::uint32_t src = simulated == 1 ? 0 : (dst + port.distance) % all_;
      const Program& sender = *programs_[src];
      const std::size_t out = sender.findOut((all_ - port.distance) % all_, port.index);
      if (out == sender.outs.size())
        refuse("rank " + std::to_string(dst) + " receives from rank " + std::to_string(src) +
               ", which does not send");
      const std::uint32_t number = places_[src].first_out + static_cast<std::uint32_t>(out);
      ins_[places_[dst].first_in + i] = number;
      Channel& channel = channels_[number];
      channel.link = &linkBetween(src, dst, network);
      channel.shared_nic = channel.link->nic == Nic::node;
      channel.sender = places_[src].first_lane + sender.outs[out].lane;
      channel.receiver = places_[dst].first_lane + port.lane;
    }
  }
}

void Simulator::applyConditions(const Conditions& conditions) {
  for (const auto& straggler : conditions.stragglers) {
    Place& place = places_[static_cast<std::size_t>(straggler.rank)];
    place.slow *= straggler.factor;
    for (std::uint32_t i = 0; i < place.lanes; ++i)
      lanes_[place.first_lane + i].clock.add(&Terms::contention, straggler.delay);
  }
  for (const auto& slow : conditions.slow_links)
    for (Channel& channel : channels_)
      if (lanes_[channel.sender].rank == static_cast<std::uint32_t>(slow.src) &&
          lanes_[channel.receiver].rank == static_cast<std::uint32_t>(slow.dst))
        channel.factor *= slow.factor;
}

namespace {

void checkSupport(const plan::Algorithm& algorithm, const plan::Spec& spec) {
  if (!algorithm.supports(spec))
    refuse(std::string(algorithm.name) + " does not support " + std::string(name(spec.collective)) +
           " of " + std::to_string(spec.ranks) + " ranks");
}

/// The collective of plans of all ranks, on ranks with this layout.
plan::Spec specOf(std::span<const plan::RankPlan> plans, const plan::Layout& layout) {
  if (plans.empty()) refuse("there are no plans to simulate");
  plan::Spec spec = plans.front().spec;
  if (static_cast<std::size_t>(spec.ranks) != plans.size())
    refuse(std::to_string(plans.size()) + " plans for " + std::to_string(spec.ranks) + " ranks");
  spec.layout = layout;
  return spec;
}

} // namespace

Simulation::Simulation(const plan::Algorithm& algorithm, const plan::Spec& spec,
                       const Network& network)
    : spec_(spec), network_(network) {
  checkSupport(algorithm, spec);
  check(network.conditions, spec.ranks);
  programs_ = std::make_unique<const Programs>(algorithm, spec);
}

Simulation::Simulation(std::span<const plan::RankPlan> plans, const plan::Layout& layout,
                       const Network& network)
    : spec_(specOf(plans, layout)), network_(network) {
  check(network.conditions, spec_.ranks);
  programs_ = std::make_unique<const Programs>(plans);
}

Simulation::~Simulation() = default;

Outcome Simulation::run(const Blocks& blocks, const Observer& observer) const {
  return runTiles(sizesOf(spec_, programs_->first(), blocks, network_), observer);
}

double Simulation::seconds(const Blocks& blocks, std::size_t most_tiles) const {
  return runSome(sizesOf(spec_, programs_->first(), blocks, network_), most_tiles).seconds;
}

Outcome Simulation::estimate(const Blocks& blocks, double most) const {
  const double messages = messagesOf(*programs_, folds(false) ? 1 : spec_.ranks);
  if (messages > most) {
    char text[64];
    std::snprintf(text, sizeof text, "it sends more than %.0f messages in a tile", most);
    throw TooLarge(text);
  }
  const double tiles = most / std::max(messages, 1.0);
  return runSome(sizesOf(spec_, programs_->first(), blocks, network_),
                 std::max<std::size_t>(static_cast<std::size_t>(tiles), 2));
}

Outcome Simulation::runSome(Sizes sizes, std::size_t most_tiles) const {
  if (sizes.tiles <= most_tiles) return runTiles(sizes, {});
  const std::size_t whole = sizes.tiles, more = most_tiles - most_tiles / 2;
  sizes.last = sizes.full;
  sizes.tiles = most_tiles;
  Outcome all = runTiles(sizes, {});
  sizes.tiles = most_tiles / 2;
  const Outcome half = runTiles(sizes, {});
  const auto grow = [&](double& value, double before) {
    value += (value - before) / static_cast<double>(more) * static_cast<double>(whole - most_tiles);
  };
  grow(all.seconds, half.seconds);
  for (double Terms::*const term :
       {&Terms::latency, &Terms::bytes, &Terms::reduction, &Terms::contention})
    grow(all.terms.*term, half.terms.*term);
  all.messages = all.messages / most_tiles * whole;
  all.tiles = whole;
  return all;
}

bool Simulation::folds(bool observed) const {
  return programs_->symmetric() && spec_.ranks > 1 && network_.conditions.normal() &&
         network_.processors == 0 && spec_.layout.nodes().size() <= 1 && !observed &&
         linksOf(spec_, network_).front()->nic != Nic::node && !programs_->of(0).switched();
}

Outcome Simulation::runTiles(const Sizes& sizes, const Observer& observer) const {
  const LinkProfile& nearest = *linksOf(spec_, network_).front();
  const bool folded = folds(observer != nullptr);
  const int simulated = folded ? 1 : spec_.ranks;
  checkWork(*programs_, sizes, simulated);
  Simulator simulator(*programs_, spec_, network_, nearest, sizes,
                      static_cast<std::uint32_t>(simulated), observer);
  simulator.run();
  Outcome outcome;
  outcome.seconds = simulator.seconds();
  outcome.terms = simulator.terms();
  outcome.stuck = simulator.stuck();
  outcome.events = simulator.events();
  outcome.tiles = sizes.tiles;
  outcome.folded = folded;
  for (int rank = 0; rank < spec_.ranks; ++rank) {
    const Program& program = programs_->of(rank);
    const Sent sent = sentBy(program);
    const double bytes = sent.chunks * sizes.block / program.chunks_per_block;
    outcome.messages += sent.messages * sizes.tiles;
    outcome.total_sent += bytes;
    outcome.max_sent = std::max(outcome.max_sent, bytes);
  }
  return outcome;
}

Outcome simulate(const plan::Algorithm& algorithm, const plan::Spec& spec, const Blocks& blocks,
                 const Network& network, const Observer& observer) {
  return Simulation(algorithm, spec, network).run(blocks, observer);
}

double closedForm(const plan::Algorithm& algorithm, const plan::Spec& spec, const Blocks& blocks,
                  const Network& network) {
  checkSupport(algorithm, spec);
  const bool moves = traits(spec.collective).movesData();
  const double bytes = moves ? std::max(blocks.bytes, 1.0) : 1;
  const LinkProfile& link = *linksOf(spec, network).back();
  const plan::Link costs{
      .alpha = link.alpha + link.send_overhead + link.receive_overhead,
      .beta = (link.send(bytes) + link.wire(bytes) + link.receive(bytes)) / bytes,
      .gamma = network.profile->reduceOf(sizeOf(blocks.type)).at(2 * bytes)};
  return algorithm.cost(spec, costs, moves ? blocks.bytes : 0);
}

Outcome simulate(std::span<const plan::RankPlan> plans, const plan::Layout& layout,
                 const Blocks& blocks, const Network& network, const Observer& observer) {
  return Simulation(plans, layout, network).run(blocks, observer);
}

} // namespace rondo::model
