// The state of a simulation. Only for simulate.cc and simulator.cc.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "model/event_queue.h"
#include "model/program.h"
#include "model/simulate.h"

namespace rondo::model {

/// A time, and the terms of the chain of causes that led to it. They add up to the time.
struct Clock {
  double time = 0;
  Terms terms;

  Clock& add(double Terms::*term, double seconds) {
    time += seconds;
    terms.*term += seconds;
    return *this;
  }
};

/// Element bytes, and the bytes of a block in a full tile and in the last one.
struct Sizes {
  std::size_t element = 4, tiles = 1;
  double full = 0, last = 0;
  double block = 0; ///< of the whole call
  bool in_place = false;
};

class Simulator {
 public:
  /// `ranks`: how many of the programs' ranks are simulated. 1 for symmetric programs: then the
  /// rank's peers are itself.
  Simulator(const Programs& programs, const plan::Spec& spec, const Network& network,
            const LinkProfile& nearest, const Sizes& sizes, std::uint32_t ranks,
            const Observer& observer);

  void run();
  double seconds() const { return end_.time; }
  const Terms& terms() const { return end_.terms; }
  std::uint64_t events() const { return events_.added() + instant_; }
  /// Why some lanes have steps left; empty if all are done.
  std::string stuck() const;

 private:
  struct Lane {
    std::uint32_t rank = 0, number = 0;  ///< of the lane in its rank
    std::uint32_t op = 0;                ///< next step, counted in all steps of the rank
    std::uint64_t tile = 0;              ///< of the next step
    std::uint32_t missing = 0;           ///< conditions that the next step waits for
    std::uint64_t done = 0;              ///< steps of all tiles
    bool running = false, ended = false; ///< running: it occupies its processor
    Clock clock;                         ///< end of the last step
    double begin = 0;                    ///< start of the running step
  };
  struct Flight {
    Clock clock;
    double wire = 0;
  };
  struct Channel {
    const LinkProfile* link = nullptr;
    std::uint32_t sender = 0, receiver = 0; ///< lanes
    std::uint32_t sent = 0, arrived = 0, consumed = 0;
    bool awaited = false, blocked = false; ///< the receiver waits for a message; the sender, a slot
    bool shared_nic = false;
    double factor = 1;
    double last_arrival = 0;
    std::vector<Flight> flights;       ///< in the order of sending; arrived ones are dropped later
    std::uint32_t gone = 0, heads = 0; ///< of these: arrived; at the receiver's NIC
  };
  struct Place { ///< of a rank
    std::uint32_t first_lane = 0, lanes = 0, first_out = 0, first_in = 0;
    std::uint32_t working = 0;                  ///< lanes that have steps
    std::uint32_t node = 0, core = 0, seat = 0; ///< seat: number among the ranks of the core
    std::uint32_t lanes_at_end = 0;
    std::deque<std::pair<std::uint32_t, Clock>> ready; ///< lanes whose steps wait for the processor
    double slow = 1;                                   ///< factor of its processor
    double penalty = 0, copy = 0, reduce = 0;          ///< Profile's levels for its working set
  };
  struct Core {
    bool busy = false;
    std::uint32_t ranks = 0;
    std::uint32_t last = 0;            ///< rank
    double free = 0;                   ///< when its last step ended
    std::deque<std::uint32_t> waiting; ///< ranks with ready steps, each once
  };
  struct Way { ///< one direction of a NIC
    double free = 0;
    std::uint32_t last = 0; ///< rank whose message was the last
  };

  std::string whyStuck(const Lane& lane, bool by_dead_link) const;
  void placeRanks(const plan::Spec& spec, const Network& network);
  void connect(const Network& network);
  const LinkProfile& linkBetween(std::uint32_t a, std::uint32_t b, const Network& network) const;
  void applyConditions(const Conditions& conditions);

  double turnsOf(const Core& core, std::uint32_t rank, double ready) const;
  void startReady();
  void queue(std::uint32_t id, const Clock& clock);
  void start(std::uint32_t id, const Clock& ready);
  void enter(std::uint32_t id, const Clock& clock);
  void finish(std::uint32_t id);
  void advance(std::uint32_t id);
  void endTile(std::uint32_t id);
  void release(Core& core, const Lane& lane);
  void meet(std::uint32_t id, const Clock& clock);
  void passSwitch(const Op& op, double bytes, std::uint32_t rank, Clock& clock);
  void launch(Channel& channel, std::uint32_t number, Clock clock, double bytes);
  void head(std::uint32_t number);
  void arrive(std::uint32_t number);
  void wait(Clock& clock, Way& way, double wire, std::uint32_t rank, bool shared);
  /// One condition of the lane's next step holds from now on.
  void satisfy(std::uint32_t id, const Clock& clock) {
    if (--lanes_[id].missing == 0) todo_.emplace_back(id, clock);
  }
  Clock costOf(const Lane& lane, const Program& program, const Op& op, Clock clock) const;
  double bytesOf(const Program& program, const Op& op, std::uint64_t tile) const {
    return op.chunks * (tile + 1 == sizes_.tiles ? sizes_.last : sizes_.full) /
           program.chunks_per_block;
  }
  const Program& programOf(const Lane& lane) const { return *programs_[lane.rank]; }
  std::uint32_t inOf(const Lane& lane, std::uint32_t ref) const {
    return ins_[places_[lane.rank].first_in + ref];
  }
  std::uint32_t outOf(const Lane& lane, std::uint32_t ref) const {
    return places_[lane.rank].first_out + ref;
  }

  const Sizes sizes_;
  const std::uint32_t all_; ///< ranks of the collective
  const Observer& observer_;
  const double turn_, meeting_alpha_;
  const LinkProfile& nearest_;           ///< between ranks of a node, if a node has several
  std::vector<const Program*> programs_; ///< by rank
  std::vector<Place> places_;
  std::vector<Lane> lanes_;
  std::vector<Channel> channels_;
  std::vector<std::uint32_t> ins_; ///< channels, by rank and port
  std::vector<Core> cores_;
  std::vector<Way> out_, in_; ///< by rank, then by node
  struct Waiter {
    std::uint32_t lane = 0;
    std::uint64_t until = 0; ///< Lane::done that it waits for
  };
  std::vector<std::vector<Waiter>> waiters_; ///< by lane
  std::vector<std::uint32_t> meeting_, met_; ///< lanes that wait in a barrier; that leave it
  Clock met_at_;
  std::deque<std::pair<std::uint32_t, Clock>> todo_; ///< lanes whose next step can run
  std::vector<std::uint32_t> freed_; ///< lanes whose step is done, whose processors are still busy
  EventQueue events_;
  std::uint64_t instant_ = 0; ///< steps that took no time, for which no event was queued
  Clock end_;
};

} // namespace rondo::model
