// Converts a bound plan to the tables of a device program.
#include "engine/device_program.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <optional>
#include <string>

#include "device/program_kind.h"
#include "device/window.h"
#include "engine/scaling.h"
#include "plan/bundle.h"
#include "rondo/error.h"

namespace rondo::engine {

namespace {

class Flattener {
 public:
  Flattener(const BoundPlan& plan, const DeviceSteps& on_device, std::size_t per_element,
            device::ProgramTables& tables)
      : plan_(plan), on_device_(on_device), per_element_(per_element), tables_(tables) {}

  void addSteps(const std::vector<BoundLane>& lanes) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane)
      for (std::size_t s = 0; s < lanes[lane].size(); ++s) {
        const BoundStep& step = lanes[lane][s];
        const DeviceStep& on_device = on_device_[lane][s];
        if (on_device.bundle > 0) first_ = Flattener::next(tables_.steps);
        add(step, on_device, lanes);
        // The kernel decides by a bundle's first step whether to skip the bundle. If a later step
        // had fewer tiles than the first, the kernel would wait at it forever.
        assert(tables_.steps[first_].tiles == step.tiles);
      }
  }

  /// The index of the table's next entry.
  template <class T>
  static std::uint32_t next(const std::vector<T>& table) {
    if (table.size() > std::numeric_limits<std::int32_t>::max())
      throw Error(ErrorCode::unsupported, "the plan is too large for a device");
    return static_cast<std::uint32_t>(table.size());
  }

 private:
  void add(const BoundStep& step, const DeviceStep& on_device,
           const std::vector<BoundLane>& lanes) {
    device::Step flat;
    flat.bytes = step.bytes;
    flat.tiles = step.tiles;
    flat.raw_input = step.raw_input;
    flat.lends = on_device.lends;
    flat.bundle = on_device.bundle;
    flat.written_by_sender = on_device.written_by_sender;
    flat.sums = on_device.sums;
    flat.to_all = on_device.to_all;
    flat.is_barrier = on_device.is_barrier;
    tables_.header.is_barrier |= on_device.is_barrier;
    if (on_device.announces) {
      flat.announces = static_cast<std::int32_t>(next(tables_.offsets));
      tables_.offsets.push_back(
          lanes[on_device.announces->lane][on_device.announces->step].output.offsets[0]);
    }
    tables_.header.lends |= on_device.lends;
    flat.segments = {next(tables_.segments), static_cast<std::uint32_t>(step.segments.size())};
    for (const plan::Segment& segment : step.segments)
      tables_.segments.push_back({segment.count * per_element_, segment.packed});
    flat.after = {next(tables_.after), static_cast<std::uint32_t>(step.after.size())};
    tables_.after.insert(tables_.after.end(), step.after.begin(), step.after.end());

    flat.places = next(tables_.places);
    for (const BoundOperand& input : step.inputs) {
      if (input.wire) addWire(input.wire);
      else addLocal(input.piece, on_device.sums);
    }
    flat.inputs = next(tables_.places) - flat.places;
    if (step.has_output) addLocal(step.output, on_device.to_all);
    for (const End* end : step.sends) addWire(end);
    const std::uint32_t stop = next(tables_.places);
    flat.outputs = stop - flat.places - flat.inputs;
    for (std::uint32_t p = flat.places; p < stop; ++p) {
      tables_.places[p].member = static_cast<std::uint16_t>(next(tables_.steps) - first_);
      tables_.places[p].output = p >= flat.places + flat.inputs;
    }
    for (std::uint32_t s = 0; s < on_device.address_inputs.size(); ++s) {
      const auto sends = static_cast<std::uint32_t>(step.sends.size());
      const std::uint32_t output = stop - sends + s;
      tables_.places[output].put = 0;
      tables_.places[flat.places + on_device.address_inputs[s]].put =
          static_cast<std::int16_t>(output - flat.places);
    }
    tables_.steps.push_back(flat);
    device::Step& first = tables_.steps[first_];
    first.ends = stop - first.places;
    tables_.header.max_places = std::max(tables_.header.max_places, first.ends);
  }
  void addLocal(const plan::PieceOffsets& piece, bool of_all) {
    tables_.places.push_back(
        {.space = piece.space, .of_all = of_all, .offsets = next(tables_.offsets)});
    tables_.offsets.insert(tables_.offsets.end(), piece.offsets.begin(), piece.offsets.end());
  }
  void addWire(const End* end) {
    const auto found = std::find(plan_.ends.begin(), plan_.ends.end(), end);
    tables_.places.push_back({.channel = static_cast<std::int32_t>(found - plan_.ends.begin())});
  }

  const BoundPlan& plan_;
  const DeviceSteps& on_device_;
  const std::size_t per_element_;
  device::ProgramTables& tables_;
  std::uint32_t first_ = 0; ///< first step of the bundle in progress
};

bool hasDependencies(const BoundPlan& plan) {
  return std::any_of(plan.last.begin(), plan.last.end(), [](const BoundLane& lane) {
    return std::any_of(lane.begin(), lane.end(),
                       [](const BoundStep& step) { return !step.after.empty(); });
  });
}

} // namespace

namespace {

/// Throws for a plan that the kernels for the switch cannot run.
void refuseSwitch(const device::ProgramTables& tables) {
  const device::ProgramHeader& header = tables.header;
  if (!header.is_barrier) return;
  const bool moves = header.type == DataType::uint8 && header.op == ReduceOp::Kind::bor;
  if (!moves && !device::switchReduces(header.type, header.op))
    throw Error(ErrorCode::unsupported, "the switch does not reduce " +
                                            std::string(name(header.type)) + " by this operator");
  if (header.protocol == device::Protocol::low_latency)
    throw Error(ErrorCode::unsupported, "the low-latency protocol has no barrier");
}

} // namespace

DeviceSteps deviceSteps(const plan::RankPlan& plan, const plan::Lending* lending,
                        const plan::Puts* puts, bool bundles) {
  std::optional<plan::Bundles> of_plan;
  if (bundles) of_plan.emplace(plan);
  DeviceSteps result(plan.lanes.size());
  for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane)
    for (std::uint32_t s = 0; s < plan.lanes[lane].steps.size(); ++s) {
      const plan::Step& step = plan.lanes[lane].steps[s];
      DeviceStep& made = result[lane].emplace_back();
      made.sums = !step.inputs.empty() && step.inputs[0].of_all;
      made.to_all = step.to_all;
      made.is_barrier = step.is_barrier;
      if (puts) {
        made.address_inputs = puts->addressInputs(plan.rank, lane, s);
        made.announces = puts->announces(plan.rank, lane, s);
        made.written_by_sender = puts->writtenBySender(plan.rank, lane, s);
      }
      made.lends = lending && lending->may(plan.rank, lane, s) && made.address_inputs.empty();
      if (of_plan) made.bundle = of_plan->size(lane, s);
    }
  return result;
}

device::ProgramTables flatten(const BoundPlan& plan, const DeviceSteps& steps,
                              device::Protocol protocol, std::uint32_t copies) {
  if (protocol == device::Protocol::low_latency && plan.last.size() > 1)
    throw Error(ErrorCode::unsupported, "the low-latency protocol serves plans of one lane");
  device::ProgramTables tables;
  device::ProgramHeader& header = tables.header;
  header.channels = static_cast<std::uint32_t>(plan.ends.size());
  header.tiles = plan.tiles;
  header.tile_bytes = plan.tile_bytes;
  header.output_count = plan.shape.count;
  header.copies = copies;
  header.scratch_bytes = plan.scratch_bytes;
  header.protocol = protocol;
  header.lanes_in_step = plan.lanes_in_step;
  const ReduceOp::Kind op = plan.shape.op;
  const bool computes = plan.reduce || scales(op, plan.shape.type) != Scales::nothing;
  const auto kind = device::programKind(plan.shape.type, op, computes);
  header.type = kind.type;
  header.op = kind.op;
  header.divides = plan.divides;
  header.divides_signed = traits(plan.shape.type).isSignedInteger();

  std::uint64_t ticks = 0;
  for (const BoundLane& lane : plan.last) {
    const auto before =
        tables.lanes.empty() ? 0 : tables.lanes.back().first + tables.lanes.back().count;
    tables.lanes.push_back({before, static_cast<std::uint32_t>(lane.size())});
    ticks = std::max(ticks, plan.tiles * lane.size());
  }
  header.lanes = Flattener::next(tables.lanes);
  header.ticks = ticks + 2; // all steps, plus one tick for the end of the steps and one for the end
  header.watched =
      hasDependencies(plan) || header.lanes_in_step || (header.divides && header.blocks() > 1);

  Flattener flattener(plan, steps, kind.per_element, tables);
  flattener.addSteps(plan.full);
  header.last_steps = Flattener::next(tables.steps);
  flattener.addSteps(plan.last);
  refuseSwitch(tables);
  return tables;
}

Position position(const BoundPlan& plan, const device::Report& report) {
  const auto laneOf = [&](std::uint32_t block) {
    return "lane " + std::to_string(block % std::max<std::size_t>(plan.last.size(), 1));
  };
  std::string text = laneOf(report.block) + " step " + std::to_string(report.step) + ", tile " +
                     std::to_string(report.tile + 1) + " of " + std::to_string(plan.tiles) + ", ";
  if (report.awaited == device::Report::Awaited::lane)
    return {-1, text + "waiting for " + laneOf(report.whom)};
  if (report.awaited == device::Report::Awaited::meeting)
    return {static_cast<int>(report.whom),
            text + "waiting at a barrier for rank " + std::to_string(report.whom)};
  const int peer = report.whom < plan.ends.size() ? plan.ends[report.whom]->peer : -1;
  const bool message = report.awaited == device::Report::Awaited::message;
  return {peer, text + (message ? "waiting to receive from rank " + std::to_string(peer)
                                : "waiting until rank " + std::to_string(peer) + " receives")};
}

} // namespace rondo::engine
