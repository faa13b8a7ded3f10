// Counts the work of the plan kernel from all ranks' plans, step by step.
#include "engine/device_count.h"

#include <algorithm>
#include <span>
#include <vector>

#include "device/residency.h"
#include "engine/device_cut.h"
#include "engine/device_tuning.h"
#include "plan/bundle.h"
#include "plan/facts.h"
#include "plan/graph.h"
#include "plan/tiles.h"
#include "rondo/error.h"

namespace rondo::engine {

namespace {

/// As in Device::residentBlocks().
constexpr int kSparePart = 16;

/// The longest chain of bundles in a tile in which each bundle waits for the one before.
int longestChain(const plan::Graph& graph) {
  const std::vector<std::uint32_t> first = plan::bundledNodes(graph);
  std::vector<int> chain(graph.nodes().size(), 1); // indexed by a bundle's first node
  int longest = 0;
  for (const std::uint32_t node : graph.order({}, first)) {
    const std::uint32_t from = first[node];
    longest = std::max(longest, chain[from]);
    const auto follows = [&](std::uint32_t next) {
      if (first[next] != from) chain[first[next]] = std::max(chain[first[next]], chain[from] + 1);
    };
    graph.forEachLocalSuccessor(node, follows);
    for (const std::uint32_t message : graph.sent(node)) follows(graph.messages()[message].to);
  }
  return longest;
}

/// How the messages of a step travel.
struct How {
  bool packets = false;
  bool lends = false;             ///< the message stays in the sender's memory
  bool written_by_sender = false; ///< the sender writes the message to its destination
};

/// Bytes that a step reads and writes. Copies onto themselves are counted, because a plan does not
/// know whether a call is in place. Half of a packet is flags.
double moved(const plan::Step& step, const plan::TiledStep& tiled, const How& how) {
  const std::size_t sent = how.lends ? 0 : step.sends.size();
  // the receivers read it in the sender's memory
  if (how.written_by_sender || (sent == 0 && !step.output)) return 0;
  std::size_t pieces = step.output ? 1 : 0;
  const std::size_t of_message = how.packets ? 2 : 1;
  for (const plan::Operand& input : step.inputs) pieces += input.local() ? 1 : of_message;
  return static_cast<double>(tiled.bytes * (pieces + sent * of_message));
}

/// Fences of a bundle: one for each warp that publishes a message or returns a slot.
std::uint64_t fencesOf(std::span<const plan::Step> bundle, bool packets) {
  std::vector<bool> telling; // whether the warp needs a fence, by warp
  std::size_t end = 0;
  const auto add = [&](bool tells) {
    if (end++ % plan::kWarp == 0) telling.push_back(false);
    telling.back() = telling.back() || tells;
  };
  for (const plan::Step& step : bundle) {
    for (const plan::Operand& input : step.inputs) add(!input.local());
    if (step.output) add(false);
    // packets contain their own flags
    for (std::size_t s = 0; s < step.sends.size(); ++s) add(!packets);
  }
  return static_cast<std::uint64_t>(std::count(telling.begin(), telling.end(), true));
}

class Counter {
 public:
  Counter(const std::vector<plan::RankPlan>& plans, const plan::CallShape& shape,
          const DeviceCut& cut)
      : plans_(plans), shape_(shape), cut_(cut) {
    counts_.packets = cut.protocol == device::Protocol::low_latency;
  }

  DeviceCounts all() {
    for (const plan::RankPlan& plan : plans_) add(plan);
    return counts_;
  }

 private:
  void add(const plan::RankPlan& plan) {
    const std::size_t limit = plan::messageElements(plan, shape_, cut_.message_bytes, false);
    const plan::Tiling tiling = plan::cut(plan, shape_, plan::tileElements(plan, shape_, limit));
    const std::uint64_t copies = std::min<std::uint64_t>(cut_.copies, tiling.tiles);
    counts_.tiles = std::max<std::uint64_t>(counts_.tiles, tiling.tiles);
    counts_.blocks = std::max<std::uint64_t>(counts_.blocks, copies * plan.lanes.size());
    counts_.turns = std::max<std::uint64_t>(counts_.turns, (tiling.tiles + copies - 1) / copies);
    const plan::Bundles bundles(plan);
    double sent = 0;
    for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
      const std::span<const plan::Step> steps = plan.lanes[lane].steps;
      double of_tile = 0;
      for (std::uint32_t s = 0; s < steps.size(); ++s) {
        const plan::TiledStep& last = tiling.last[lane][s];
        const plan::TiledStep& full = tiling.full.empty() ? last : tiling.full[lane][s];
        const How how = howOf(plan.rank, lane, s);
        const auto before = static_cast<double>(last.tiles - 1);
        of_tile += moved(steps[s], full, how);
        counts_.memory_bytes += before * moved(steps[s], full, how) + moved(steps[s], last, how);
        counts_.messages += last.tiles * steps[s].sends.size();
        counts_.fences +=
            last.tiles * fencesOf(steps.subspan(s, bundles.size(lane, s)), counts_.packets);
        counts_.most_inputs =
            std::max(counts_.most_inputs, static_cast<std::uint32_t>(steps[s].inputs.size()));
        const double bytes =
            before * static_cast<double>(full.bytes) + static_cast<double>(last.bytes);
        sent += bytes * static_cast<double>(steps[s].sends.size());
      }
      counts_.lane_bytes = std::max(counts_.lane_bytes, of_tile);
    }
    counts_.link_bytes = std::max(counts_.link_bytes, sent);
    counts_.bound_bytes += static_cast<double>(plan::inputBlocks(plan.spec, plan.rank) +
                                               plan::outputBlocks(plan.spec, plan.rank)) *
                           static_cast<double>(shape_.count * sizeOf(shape_.type));
  }

  How howOf(int rank, std::uint32_t lane, std::uint32_t step) const {
    How how{.packets = counts_.packets};
    bool puts = false;
    if (cut_.puts) {
      puts = !cut_.puts->addressInputs(rank, lane, step).empty();
      how.written_by_sender = cut_.puts->writtenBySender(rank, lane, step);
    }
    how.lends = cut_.lending && !puts && cut_.lending->may(rank, lane, step);
    return how;
  }

  const std::vector<plan::RankPlan>& plans_;
  const plan::CallShape& shape_;
  const DeviceCut& cut_;
  DeviceCounts counts_;
};

double microseconds(double bytes, double gigabytes_per_second) {
  return bytes / gigabytes_per_second / 1e3;
}

} // namespace

double DeviceCounts::fencesPerMessage() const {
  return messages == 0 ? 0 : static_cast<double>(fences) / static_cast<double>(messages);
}
double DeviceCounts::ofBound() const { return bound_bytes == 0 ? 0 : memory_bytes / bound_bytes; }
double DeviceTime::total() const { return launch + std::max({steps + moving, memory, link}); }

DeviceCounts countOnDevices(const plan::Algorithm& algorithm, const plan::Spec& spec,
                            std::size_t count, DataType type, const DeviceMachine& machine) {
  const device::Residency residency{
      std::max(machine.multiprocessors - machine.multiprocessors / kSparePart, 1),
      machine.ranks_on_device};
  const std::size_t slot = deviceSlot(spec.ranks);
  const DeviceLimits limits{deviceChannel(slot, kDeviceDepth, residency), residency, machine.lends};
  std::vector<plan::RankPlan> plans;
  for (int rank = 0; rank < spec.ranks; ++rank) plans.push_back(algorithm.build(spec, rank));
  const plan::CallShape shape{.count = count, .type = type, .op = ReduceOp::Kind::sum};
  plan::Facts facts(algorithm, spec);
  const DeviceCut cut = cutForDevice(plans[0], facts, shape, limits, slot);
  DeviceCounts counts = Counter(plans, shape, cut).all();
  std::vector<std::string> complaints;
  const plan::Graph graph(plans, complaints, 1);
  if (!complaints.empty()) throw Error(ErrorCode::invalid_argument, complaints[0]);
  counts.dependent_steps = longestChain(graph);
  return counts;
}

DeviceTime predictOnDevices(const DeviceCounts& counts, const DeviceMachine& machine, int ranks,
                            const DeviceRates& rates) {
  const auto turns = static_cast<double>(counts.turns);
  const double here = std::min(1.0, static_cast<double>(machine.ranks_on_device) / ranks);
  DeviceTime time;
  time.launch = rates.launch_us;
  time.steps =
      turns * counts.dependent_steps * (counts.packets ? rates.packet_step_us : rates.step_us);
  time.moving = microseconds(turns * counts.lane_bytes, rates.block_gbs);
  time.memory = microseconds(counts.memory_bytes * here, rates.memory_gbs);
  if (machine.ranks_on_device < ranks) time.link = microseconds(counts.link_bytes, rates.link_gbs);
  return time;
}

} // namespace rondo::engine
