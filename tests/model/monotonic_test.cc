// Tests that predicted times do not fall when a call has more ranks.
#include <algorithm>
#include <bit>
#include <map>
#include <span>
#include <string_view>

#include "model/simulate.h"
#include "plan/registry.h"
#include "support/grid.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace model;

/// Faster for a power of two than for the numbers of ranks before it, whose extra ranks send to
/// others first.
bool folds(std::string_view algorithm) {
  return algorithm == "butterfly" || algorithm == "halving" || algorithm == "halving_doubling";
}

/// The share of the time by which a prediction may be shorter than that for fewer ranks.
double mayFall(std::string_view algorithm) {
  // More ranks have smaller pieces. On loopback, a byte of a piece below 128 KiB costs less.
  if (algorithm == "ring" || algorithm == "direct" || algorithm == "scatter_allgather") return 0.12;
  // A further rank can change the shape of the trees.
  if (algorithm == "tree" || algorithm == "double_tree") return 0.04;
  return 1e-3;
}

} // namespace

// Proves: the model charges for every rank, with the exceptions above.
TEST_CASE("predicted times do not fall when there are more ranks with blocks of the same size") {
  constexpr Collective kCalls[] = {Collective::allreduce, Collective::reducescatter,
                                   Collective::allgather, Collective::broadcast,
                                   Collective::reduce,    Collective::scatter,
                                   Collective::gather,    Collective::alltoall};
  constexpr double kSizes[] = {8, 4 << 10, 256 << 10, 2 << 20, 16 << 20}; // bytes
  const std::span<const double> sizes(kSizes, kWholeGrid ? 5 : 4);
  for (const LinkClass link : {LinkClass::shm, LinkClass::loopback})
    for (const plan::Algorithm* algorithm : plan::algorithms())
      for (const Collective collective : kCalls) {
        std::map<double, double> most; // by size
        for (int ranks = 2; ranks <= 16; ++ranks) {
          const plan::Spec spec{.collective = collective, .ranks = ranks};
          if (!algorithm->supports(spec)) continue;
          const Network network{.profile = &defaultProfile(), .inside = link};
          const Simulation simulation(*algorithm, spec, network);
          for (const double bytes : sizes) {
            const double seconds = simulation.run({bytes}).seconds;
            INFO(algorithm->name << ", " << name(collective) << ", " << name(link) << ", " << bytes
                                 << " bytes, " << ranks << " ranks");
            CHECK(seconds >= most[bytes] * (1 - mayFall(algorithm->name)));
            if (!folds(algorithm->name) || std::has_single_bit(static_cast<unsigned>(ranks)))
              most[bytes] = std::max(most[bytes], seconds);
          }
        }
      }
}

} // namespace rondo::test
