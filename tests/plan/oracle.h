// A small interpreter of plans that shares no code with the checker: it runs them on numbers.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>

#include "plan/plan.h"

namespace rondo::test {

using namespace plan;
using Random = std::mt19937_64;

/// 0 <= result < bound.
inline std::uint64_t below(Random& random, std::uint64_t bound) { return random() % bound; }

/// Parameters of one run: slots, tiles and elements, and the order in which lanes get turns.
struct Schedule {
  int depth = 1;
  int tiles = 1;
  bool in_place = false;
  std::size_t count = 1; ///< elements of a block, per tile
  enum class Order {
    fair,       ///< any lane that can go on
    priorities, ///< lanes in a random order; the first that can go on
    late_rank,  ///< one rank only when no other can go on
  } order = Order::fair;
};

/// Runs all ranks' plans on random numbers. Empty if every rank ended with the right output, else
/// what happened. Sums are modulo 2^64; undefined memory holds random numbers.
std::string run(std::span<const RankPlan> plans, const Schedule& schedule, Random& random);

/// Whether `runs` random schedules, at depths 1, 2 and 8, in place and not, with one and several
/// tiles, all end well. Otherwise the result of the first that failed.
std::string runMany(std::span<const RankPlan> plans, int runs, Random& random);

} // namespace rondo::test
