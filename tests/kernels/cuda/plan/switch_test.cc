// The plan kernel with windows and a switch: nvls on any number of ranks, with every type and
// operator that a switch supports, and barriers that not all ranks reach.
#include <algorithm>
#include <chrono>
#include <thread>

#include "device/program_kind.h"
#include "kernels/cuda/plan/collective_call.h"
#include "plan/registry.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;
using device::Protocol;

constexpr device::RingSize kRings{Protocol::simple, 2, 256};
constexpr std::size_t kRoom = 1024;
constexpr Collective kSwitched[] = {Collective::allreduce, Collective::reducescatter,
                                    Collective::allgather};

const plan::Algorithm& nvls() { return *plan::findAlgorithm("nvls"); }

bool serves(Collective collective, DataType type, ReduceOp op) {
  if (!reduces(collective)) return op == ReduceOp::sum;
  if (!op.supports(type)) return false;
  const auto kind = device::programKind(type, op.kind(), true);
  return device::switchReduces(kind.type, kind.op);
}

/// All three collectives, one after the other in the same windows.
std::vector<Call> callsOf(int ranks, std::initializer_list<std::size_t> counts, DataType type,
                          ReduceOp op = ReduceOp::sum) {
  std::vector<Call> calls;
  for (const std::size_t count : counts)
    for (const bool in_place : {false, true})
      for (const Collective collective : kSwitched)
        if (serves(collective, type, op))
          calls.push_back(callOf(nvls(),
                                 {.collective = collective,
                                  .count = count,
                                  .type = type,
                                  .op = op,
                                  .in_place = in_place},
                                 ranks));
  return calls;
}

/// The rank launches nothing and checks nothing.
void launchNothing(Part& part) {
  part.plan.lanes.clear();
  part.after = {};
}

/// Removes the barrier with this number, on all ranks.
void leaveOut(Call& call, int meeting) {
  for (Part& part : call.parts) {
    auto& steps = part.plan.lanes[0].steps;
    auto at = steps.begin();
    for (int left = meeting; !at->is_barrier || left-- > 0;) ++at;
    steps.erase(at);
  }
}

} // namespace

// Proves: sums and stores reach the right places of all windows. Tiles and calls of different kinds
// follow each other in the same windows, in place and not, in several copies and with several
// threads in a block. The thread sanitizer finds accesses that no barrier orders.
TEST_CASE("nvls runs on any number of ranks, with counts of any size one after the other") {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8})
    for (const std::uint32_t copies : {1, 3}) {
      // A few tiles for every call except the smallest: with more ranks than processors, barriers
      // are slow.
      World world(ranks, kRings,
                  {.threads = ranks <= 3 ? 3u : 1u,
                   .copies = copies,
                   .room = kRoom * static_cast<std::size_t>(ranks)});
      INFO(ranks << " ranks, " << copies << " copies");
      REQUIRE(world.run(callsOf(ranks, {0, 1, 5, 63, 517}, DataType::int32)) == "");
    }
}

// Proves: the switch's operations match the operators, with scaling and division where needed.
// Allgather moves elements of every size.
TEST_CASE("nvls reduces every type and operator of a switch, and moves every type") {
  for (const int ranks : {2, 3}) {
    World world(ranks, kRings, {.copies = 2, .room = kRoom});
    std::vector<Call> calls;
    std::size_t reducing = 0;
    for (const DataType type : kDataTypes)
      for (const ReduceOp op : kReduceOps) {
        // Fractions that are not exact in binary depend on the order of the sum.
        if (op == ReduceOp::avg && isFloat(type) && ranks == 3) continue;
        reducing += serves(Collective::allreduce, type, op) ? 1 : 0;
        for (Call& call : callsOf(ranks, {7, 301}, type, op)) calls.push_back(std::move(call));
      }
    // Sum, scaled sum and average of 4 float and 4 integer types, minimum and maximum of the
    // integers.
    CHECK(reducing == (ranks == 3 ? 28u : 32u));
    INFO(ranks << " ranks");
    REQUIRE(world.run(calls, 1) == "");
  }
}

// Proves: without the first barrier, a rank reads memory that another rank has not written yet.
// With it, the same run succeeds, although one rank is late.
TEST_CASE("nvls needs the barrier between staging and summing") {
  for (const bool weakened : {false, true}) {
    World world(2, kRings, {.room = kRoom});
    Call call = callOf(nvls(), {.count = 100, .type = DataType::int32}, 2);
    if (weakened) leaveOut(call, 0);
    call.parts[1].before = [&world, fill = call.parts[1].before] {
      fill();
      // Wait until rank 0 has reached its next barrier; by then it has read the late rank's window.
      const auto& arrival = world.windowOf(0).arrivals(false, 0)[0];
      while (HostBlock::acquire<kernels::cuda::Scope::system>(&arrival.number) == 0)
        std::this_thread::yield();
    };
    const std::string wrong = world.run({call}, 1);
    CHECK(wrong.empty() != weakened);
  }
}

// Proves: the error names the missing rank, and the failure is permanent.
TEST_CASE("a barrier that a rank does not reach ends at its deadline and names the rank") {
  World world(3, kRings, {.room = kRoom});
  world.timeout = 1s; // also of each wait for a rank that comes, which may be slow
  Call call = callOf(nvls(), {.count = 100, .type = DataType::int32}, 3);
  launchNothing(call.parts[2]);
  world.run({call}, 1);
  for (const int rank : {0, 1})
    CHECK(world.reported(rank) ==
          "timeout: lane 0 step 1, tile 1 of 1, waiting at a barrier for rank 2");
  CHECK(world.reported(2) == "");
}

// Proves: if the host gives up before a launch begins, the launch does not access its window, which
// may no longer exist.
TEST_CASE("a launch with barriers that begins after an abort stages nothing") {
  World world(2, kRings, {.room = kRoom});
  for (const int rank : {0, 1})
    HostBlock::release<kernels::cuda::Scope::system>(&world.panel(rank).abort, std::uint32_t{1});
  world.run({callOf(nvls(), {.count = 100, .type = DataType::int32}, 2)}, 1);
  for (const int rank : {0, 1}) {
    CHECK(world.panel(rank).report.reason == device::Report::Reason::aborted);
    const std::byte* const room = world.windowOf(rank).room(false, 0);
    CHECK(std::count(room, room + kRoom, std::byte{0}) == kRoom);
  }
}

// Proves: ranks in different calls find this out at the barrier, before they add anything.
TEST_CASE("ranks in different calls get a mismatch at a barrier") {
  World world(2, kRings, {.room = kRoom});
  Call call = callOf(nvls(), {.count = 100, .type = DataType::int32}, 2);
  call.parts[0].signature = 0x77;
  call.parts[1].signature = 0x99;
  CHECK(world.run({call}, 1).find("mismatch") != std::string::npos);
  int refused = 0;
  for (const int rank : {0, 1}) {
    if (world.panel(rank).report.reason != device::Report::Reason::mismatch) continue;
    ++refused;
    CHECK(world.panel(rank).report.whom == static_cast<std::uint32_t>(1 - rank));
    CHECK(world.panel(rank).report.theirs == (rank == 0 ? 0x99u : 0x77u));
  }
  CHECK(refused == 2);
}

} // namespace rondo::test
