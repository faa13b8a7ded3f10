// Runs events: steps start when nothing is missing, and their messages make other steps ready.
#include "model/simulator.h"

#include <algorithm>
#include <cmath>

#include "base/parse.h"

namespace rondo::model {

namespace {

/// Arrived flights of a channel that are kept until it is worth dropping them.
constexpr std::uint32_t kMostGone = 64;
constexpr std::size_t kMostReasons = 3;

} // namespace

void Simulator::run() {
  for (std::uint32_t id = 0; id < lanes_.size(); ++id) {
    if (lanes_[id].ended) continue;
    if (lanes_[id].clock.time == 0) enter(id, lanes_[id].clock);
    else events_.push(lanes_[id].clock.time, EventQueue::Kind::begin, id);
  }
  for (;;) {
    startReady();
    if (events_.empty()) return;
    const EventQueue::Event event = events_.pop();
    switch (event.kind) {
      case EventQueue::Kind::begin: enter(event.object, lanes_[event.object].clock); break;
      case EventQueue::Kind::step_done: finish(event.object); break;
      case EventQueue::Kind::head: head(event.object); break;
      case EventQueue::Kind::arrival: arrive(event.object); break;
      case EventQueue::Kind::meeting:
        for (const std::uint32_t id : met_) {
          lanes_[id].clock = met_at_;
          finish(id);
        }
        break;
    }
  }
}

/// Steps that became ready together all queue before a processor is free again, so that a rank
/// keeps its processor while it has ready steps.
void Simulator::startReady() {
  for (;;) {
    if (!todo_.empty()) {
      const auto [id, clock] = todo_.front();
      todo_.pop_front();
      Core& core = cores_[places_[lanes_[id].rank].core];
      if (core.busy) queue(id, clock);
      else start(id, clock);
    } else if (!freed_.empty()) {
      const std::uint32_t id = freed_.back();
      freed_.pop_back();
      release(cores_[places_[lanes_[id].rank].core], lanes_[id]);
    } else {
      return;
    }
  }
}

void Simulator::queue(std::uint32_t id, const Clock& clock) {
  Place& place = places_[lanes_[id].rank];
  if (place.ready.empty()) cores_[place.core].waiting.push_back(lanes_[id].rank);
  place.ready.emplace_back(id, clock);
}

void Simulator::start(std::uint32_t id, const Clock& ready) {
  Lane& lane = lanes_[id];
  const Program& program = programOf(lane);
  const Op& op = program.ops[lane.op];
  Core& core = cores_[places_[lane.rank].core];
  if (op.barrier) {
    meet(id, ready);
    return release(core, lane);
  }
  Clock end = costOf(lane, program, op, ready);
  if (op.reads_all || op.writes_all)
    passSwitch(op, bytesOf(program, op, lane.tile), lane.rank, end);
  if (core.ranks > 1 && end.time > ready.time)
    end.add(&Terms::contention, turnsOf(core, lane.rank, ready.time));
  lane.begin = ready.time;
  lane.clock = end;
  if (end.time == ready.time) { // it did not occupy the processor, which others may wait for
    ++instant_;
    finish(id);
    return release(core, lane);
  }
  core.last = lane.rank;
  core.busy = lane.running = true;
  events_.push(end.time, EventQueue::Kind::step_done, id);
}

/// Seconds until the rank has the processor. Ranks that share one look for work one after the
/// other, and each look takes a turn. A step that becomes ready while none of them works waits for
/// half a round on average, and at least as long as if it had been ready before.
double Simulator::turnsOf(const Core& core, std::uint32_t rank, double ready) const {
  const std::uint32_t between =
      (core.ranks + places_[rank].seat - places_[core.last].seat) % core.ranks;
  if (ready <= core.free) return turn_ * between;
  return std::max(turn_ * core.ranks / 2, core.free + turn_ * between - ready);
}

/// The sum of a piece of all windows leaves every rank once and enters this one; a store to all
/// windows leaves this rank and enters every one.
void Simulator::passSwitch(const Op& op, double bytes, std::uint32_t rank, Clock& clock) {
  const double wire = nearest_.wire(bytes);
  Clock last = clock;
  const auto pass = [&](Way& way) {
    Clock one = clock;
    wait(one, way, wire, rank, false);
    if (one.add(&Terms::bytes, wire).time > last.time) last = one;
  };
  for (std::uint32_t other = 0; other < places_.size(); ++other) {
    if (op.reads_all) pass(out_[other]);
    if (op.writes_all) pass(in_[other]);
  }
  if (op.reads_all) pass(in_[rank]);
  if (op.writes_all) pass(out_[rank]);
  clock = last;
}

/// Adds what the step costs its rank's processor.
Clock Simulator::costOf(const Lane& lane, const Program& program, const Op& op, Clock clock) const {
  const Place& place = places_[lane.rank];
  const double bytes = bytesOf(program, op, lane.tile);
  double messages = 0, moving = 0;
  for (std::uint32_t i = 0; i < op.receives; ++i) {
    const LinkProfile& link = *channels_[inOf(lane, program.refs[op.refs + i])].link;
    messages += link.receive_overhead;
    moving += link.receive(bytes) + bytes * place.penalty;
  }
  for (std::uint32_t i = op.receives; i < op.receives + op.sends; ++i) {
    const LinkProfile& link = *channels_[outOf(lane, program.refs[op.refs + i])].link;
    messages += link.send_overhead;
    const double copied = op.lasting ? std::min(bytes, link.lends_from) : bytes;
    moving += link.send(copied) + copied * place.penalty;
  }
  const std::uint32_t operands = op.receives + op.locals;
  const bool copies = op.receives == 0 && op.locals == 1 && op.output;
  if (copies && !(op.own_copy && sizes_.in_place)) moving += bytes * place.copy;
  clock.add(&Terms::latency, messages * place.slow);
  clock.add(&Terms::bytes, moving * place.slow);
  if (operands > 1)
    clock.add(&Terms::reduction, (operands - 1) * bytes * place.reduce * place.slow);
  return clock;
}

/// The lane's next step waits for messages, slots and other steps.
void Simulator::enter(std::uint32_t id, const Clock& clock) {
  Lane& lane = lanes_[id];
  const Program& program = programOf(lane);
  const Op& op = program.ops[lane.op];
  std::uint32_t missing = 0;
  for (std::uint32_t i = 0; i < op.receives; ++i) {
    Channel& channel = channels_[inOf(lane, program.refs[op.refs + i])];
    channel.awaited = channel.arrived == channel.consumed;
    missing += channel.awaited;
  }
  for (std::uint32_t i = op.receives; i < op.receives + op.sends; ++i) {
    Channel& channel = channels_[outOf(lane, program.refs[op.refs + i])];
    channel.blocked =
        channel.sent - channel.consumed >= static_cast<std::uint32_t>(channel.link->depth);
    missing += channel.blocked;
  }
  for (std::uint32_t i = op.after; i < op.after + op.afters; ++i) {
    const Program::After& after = program.after[i];
    const std::uint32_t other = places_[lane.rank].first_lane + after.lane;
    const std::uint64_t steps = program.lanes[after.lane + 1] - program.lanes[after.lane];
    const std::uint64_t until = lane.tile * steps + after.step + 1;
    if (lanes_[other].done >= until) continue;
    waiters_[other].push_back({id, until});
    ++missing;
  }
  lane.missing = missing;
  if (missing == 0) todo_.emplace_back(id, clock);
}

void Simulator::finish(std::uint32_t id) {
  Lane& lane = lanes_[id];
  const Program& program = programOf(lane);
  const Op& op = program.ops[lane.op];
  const Clock clock = lane.clock;
  if (observer_)
    observer_({static_cast<int>(lane.rank), lane.number, lane.op - program.lanes[lane.number],
               lane.tile, lane.begin, clock.time});
  for (std::uint32_t i = 0; i < op.receives; ++i) {
    Channel& channel = channels_[inOf(lane, program.refs[op.refs + i])];
    ++channel.consumed;
    if (!channel.blocked) continue;
    channel.blocked = false;
    satisfy(channel.sender, clock);
  }
  const double bytes = bytesOf(program, op, lane.tile);
  for (std::uint32_t i = op.receives; i < op.receives + op.sends; ++i) {
    const std::uint32_t number = outOf(lane, program.refs[op.refs + i]);
    launch(channels_[number], number, clock, bytes);
  }
  if (lane.running) freed_.push_back(id);
  lane.running = false;
  advance(id);
}

/// The next step that waits for the lane's processor gets it. Waiting for a step of one's own rank
/// is part of the chain of causes; waiting for another rank is contention.
void Simulator::release(Core& core, const Lane& lane) {
  core.busy = false;
  core.free = lane.clock.time;
  if (core.waiting.empty()) return;
  const bool keeps = !places_[lane.rank].ready.empty();
  const std::uint32_t rank = keeps ? lane.rank : core.waiting.front();
  auto& ready = places_[rank].ready;
  auto [id, clock] = ready.front();
  ready.pop_front();
  if (ready.empty()) std::erase(core.waiting, rank);
  if (lanes_[id].rank == lane.rank) clock = lane.clock;
  else clock.add(&Terms::contention, lane.clock.time - clock.time);
  todo_.emplace_front(id, clock);
}

void Simulator::advance(std::uint32_t id) {
  Lane& lane = lanes_[id];
  const Program& program = programOf(lane);
  ++lane.done;
  auto& waiters = waiters_[id];
  std::erase_if(waiters, [&](const Waiter& waiter) {
    if (lane.done < waiter.until) return false;
    satisfy(waiter.lane, lane.clock);
    return true;
  });
  if (++lane.op < program.lanes[lane.number + 1]) return enter(id, lane.clock);
  lane.op = program.lanes[lane.number];
  if (++lane.tile < sizes_.tiles) {
    if (program.scratch && places_[lane.rank].working > 1) return endTile(id);
    return enter(id, lane.clock);
  }
  lane.ended = true;
  if (lane.clock.time >= end_.time) end_ = lane.clock;
}

/// Lanes of a plan with scratch enter a tile together.
void Simulator::endTile(std::uint32_t id) {
  Place& place = places_[lanes_[id].rank];
  if (++place.lanes_at_end < place.working) return;
  place.lanes_at_end = 0;
  const Clock clock = lanes_[id].clock;
  for (std::uint32_t i = 0; i < place.lanes; ++i)
    if (!lanes_[place.first_lane + i].ended) enter(place.first_lane + i, clock);
}

void Simulator::meet(std::uint32_t id, const Clock& clock) {
  meeting_.push_back(id);
  lanes_[id].clock = clock;
  lanes_[id].begin = clock.time;
  if (meeting_.size() < places_.size()) return;
  met_.swap(meeting_);
  meeting_.clear();
  met_at_ = clock;
  met_at_.add(&Terms::latency, meeting_alpha_);
  events_.push(met_at_.time, EventQueue::Kind::meeting, 0);
}

/// Waits until one direction of a network interface is free, and occupies it.
void Simulator::wait(Clock& clock, Way& way, double wire, std::uint32_t rank, bool shared) {
  if (way.free > clock.time)
    clock.add(shared && way.last != rank ? &Terms::contention : &Terms::bytes,
              way.free - clock.time);
  way.last = rank;
  way.free = clock.time + wire;
}

void Simulator::launch(Channel& channel, std::uint32_t number, Clock clock, double bytes) {
  ++channel.sent;
  if (std::isinf(channel.factor)) return; // the message is lost
  const std::uint32_t src = lanes_[channel.sender].rank;
  const double wire = channel.link->wire(bytes) * channel.factor;
  const double alpha = channel.link->alpha * channel.factor;
  const bool by_nic = channel.link->nic != Nic::none;
  if (by_nic) {
    const std::uint32_t node = static_cast<std::uint32_t>(places_.size()) + places_[src].node;
    wait(clock, out_[channel.shared_nic ? node : src], wire, src, channel.shared_nic);
  }
  clock.add(&Terms::latency, alpha);
  if (!by_nic) {
    clock.add(&Terms::bytes, wire);
    if (channel.last_arrival > clock.time)
      clock.add(&Terms::bytes, channel.last_arrival - clock.time);
    channel.last_arrival = clock.time;
  }
  channel.flights.push_back({clock, wire});
  events_.push(clock.time, by_nic ? EventQueue::Kind::head : EventQueue::Kind::arrival, number);
}

/// The first byte of a message has reached the receiver's network interface.
void Simulator::head(std::uint32_t number) {
  Channel& channel = channels_[number];
  Flight& flight = channel.flights[channel.heads++];
  const std::uint32_t dst = lanes_[channel.receiver].rank;
  const std::uint32_t node = static_cast<std::uint32_t>(places_.size()) + places_[dst].node;
  wait(flight.clock, in_[channel.shared_nic ? node : dst], flight.wire, lanes_[channel.sender].rank,
       channel.shared_nic);
  flight.clock.add(&Terms::bytes, flight.wire);
  events_.push(flight.clock.time, EventQueue::Kind::arrival, number);
}

void Simulator::arrive(std::uint32_t number) {
  Channel& channel = channels_[number];
  const Clock clock = channel.flights[channel.gone++].clock;
  if (channel.gone == channel.flights.size() || channel.gone == kMostGone) {
    channel.flights.erase(channel.flights.begin(), channel.flights.begin() + channel.gone);
    channel.heads -= std::min(channel.heads, channel.gone);
    channel.gone = 0;
  }
  ++channel.arrived;
  if (!channel.awaited) return;
  channel.awaited = false;
  satisfy(channel.receiver, clock);
}

std::string Simulator::whyStuck(const Lane& lane, bool by_dead_link) const {
  const Program& program = programOf(lane);
  const Op& op = program.ops[lane.op];
  std::string why = by_dead_link ? "" : "for another lane";
  for (std::uint32_t i = 0; i < op.receives + op.sends; ++i) {
    const bool receives = i < op.receives;
    const std::uint32_t ref = program.refs[op.refs + i];
    const Channel& channel = channels_[receives ? inOf(lane, ref) : outOf(lane, ref)];
    if (receives ? !channel.awaited : !channel.blocked) continue;
    if (std::isinf(channel.factor) != by_dead_link) continue;
    const Lane& peer = lanes_[receives ? channel.sender : channel.receiver];
    why = (receives ? "to receive from rank " : "to send to rank ") + std::to_string(peer.rank);
    break;
  }
  if (why.empty()) return why;
  return "rank " + std::to_string(lane.rank) + " lane " + std::to_string(lane.number) + " step " +
         std::to_string(lane.op - program.lanes[lane.number]) + " waits " + why;
}

std::string Simulator::stuck() const {
  std::vector<std::string> reasons;
  for (const bool by_dead_link : {true, false}) // the cause first
    for (const Lane& lane : lanes_) {
      if (lane.ended || reasons.size() == kMostReasons) continue;
      if (!by_dead_link && !whyStuck(lane, true).empty()) continue; // said already
      if (std::string reason = whyStuck(lane, by_dead_link); !reason.empty())
        reasons.push_back(std::move(reason));
    }
  return base::join(reasons, "; ");
}

} // namespace rondo::model
