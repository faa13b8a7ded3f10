// Runs the plans of all ranks as discrete events, with the times of a profile.
//
// One model serves prediction and simulation: a prediction is a simulation whose conditions are
// normal. What is modelled:
//
// - A step runs when the engine would run it: its messages have arrived, its channels have free
//   slots, the steps that it waits for are done. Lanes are repeated for each tile.
// - A processor does one step at a time, in the order in which they became ready. A rank keeps it
//   while it has ready steps; then the ranks that share it take turns, also those that wait.
// - Messages of a channel arrive in order. Messages that share a network interface pass one after
//   the other, in the order in which they reach it. For many messages this approaches equal shares.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/profile.h"
#include "plan/plan.h"
#include "rondo/error.h"

namespace rondo::model {

/// What deviates from the profile.
struct Conditions {
  struct Straggler {
    int rank = 0;
    double delay = 0;  ///< seconds that it comes late
    double factor = 1; ///< its processor is this many times as slow
  };
  struct SlowLink {
    int src = 0, dst = 0; ///< ranks
    double factor = 1;    ///< messages take this many times as long; infinity: they never arrive
  };
  std::vector<Straggler> stragglers;
  std::vector<SlowLink> slow_links;

  bool normal() const { return stragglers.empty() && slow_links.empty(); }
};

/// Throws Error(invalid_argument) if a condition has a wrong number, or a rank not below `ranks`.
void check(const Conditions& conditions, int ranks);

/// Where ranks are, and what connects them.
struct Network {
  const Profile* profile = nullptr;
  LinkClass inside = LinkClass::shm;       ///< between ranks of a node of Spec::layout
  LinkClass between = LinkClass::loopback; ///< between nodes
  int processors = 0;                      ///< of each node; 0: one for each rank, also the most
  Conditions conditions = {};
};

/// The seconds of the critical path by their cause.
struct Terms {
  double latency = 0;    ///< alpha, and what a message costs independently of its size
  double bytes = 0;      ///< moving bytes, also waiting for one's own earlier messages
  double reduction = 0;  ///< combining operands
  double contention = 0; ///< waiting for a shared interface or processor, or a straggler

  double sum() const { return latency + bytes + reduction + contention; }
};

struct Outcome {
  double seconds = 0;                  ///< until the last rank is done
  Terms terms;                         ///< add up to `seconds`
  std::string stuck;                   ///< why the collective never ends; empty if it does
  std::uint64_t events = 0;            ///< simulated: each step once, and each arrival of a message
  std::uint64_t messages = 0;          ///< of all ranks and tiles
  double total_sent = 0, max_sent = 0; ///< bytes: of all ranks; of the rank that sends most
  std::size_t tiles = 1;
  bool folded = false; ///< all ranks do the same at the same time, so that one stood for all
};

/// A step that ran, for traces.
struct Span {
  int rank = 0;
  std::uint32_t lane = 0, step = 0;
  std::size_t tile = 0;
  double begin = 0, end = 0; ///< seconds
};
using Observer = std::function<void(const Span&)>;

/// The call's blocks.
struct Blocks {
  double bytes = 0; ///< of one block
  DataType type = DataType::float32;
  /// Input and output are the same buffer, if the collective allows it.
  bool in_place = false;
};

/// The call is too large to be simulated in reasonable time and memory.
class TooLarge : public Error {
 public:
  explicit TooLarge(const std::string& reason) : Error(ErrorCode::invalid_argument, reason) {}
};

/// `observer`: called for every step; each rank is simulated then. Throws Error(invalid_argument)
/// if the algorithm does not support the spec, the profile lacks a kind of link that ranks use, or
/// a condition names a rank that does not exist; TooLarge.
Outcome simulate(const plan::Algorithm& algorithm, const plan::Spec& spec, const Blocks& blocks,
                 const Network& network, const Observer& observer = {});

/// Seconds by the formula in the algorithm's file, for calls that are too large to be simulated.
/// Its alpha, beta and gamma are those of a message of the whole block on the slowest kind of link
/// that the ranks use; contention, tiles and conditions do not count. Throws as simulate() does.
double closedForm(const plan::Algorithm& algorithm, const plan::Spec& spec, const Blocks& blocks,
                  const Network& network);

/// simulate() for plans of all ranks that no algorithm of Rondo made; they must satisfy
/// plan/check.h.
Outcome simulate(std::span<const plan::RankPlan> plans, const plan::Layout& layout,
                 const Blocks& blocks, const Network& network, const Observer& observer = {});

class Programs;
struct Sizes;

/// The same for many sizes: the plans are compiled once. The algorithm and what the network refers
/// to must outlive it.
class Simulation {
 public:
  /// Throws the errors of simulate() that do not depend on the size.
  Simulation(const plan::Algorithm& algorithm, const plan::Spec& spec, const Network& network);
  Simulation(std::span<const plan::RankPlan> plans, const plan::Layout& layout,
             const Network& network);
  ~Simulation();

  Outcome run(const Blocks& blocks, const Observer& observer = {}) const;
  /// The seconds of run(), from no more than `most_tiles` tiles (at least 2): each further tile
  /// takes as long as one of the second half of these. Its cost does not grow with the size.
  double seconds(const Blocks& blocks, std::size_t most_tiles) const;
  /// run(), also from as few tiles, so that about `most` messages are simulated. Throws TooLarge if
  /// one tile has more.
  Outcome estimate(const Blocks& blocks, double most) const;

 private:
  /// Whether one rank is simulated for all.
  bool folds(bool observed) const;
  Outcome runTiles(const Sizes& sizes, const Observer& observer) const;
  Outcome runSome(Sizes sizes, std::size_t most_tiles) const;

  const plan::Spec spec_;
  const Network network_;
  std::unique_ptr<const Programs> programs_;
};

} // namespace rondo::model
