// The plan kernel's correctness grid: every algorithm and collective, number of ranks, count, type,
// operator, protocol and depth. Each call is launched twice on the same channels with the same
// argument, as a replayed graph does.
#include <algorithm>
#include <atomic>
#include <chrono>

#include "engine/device_program.h"
#include "kernels/cuda/plan/collective_call.h"
#include "plan/facts.h"
#include "plan/registry.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using device::Protocol;

constexpr Protocol kProtocols[] = {Protocol::simple, Protocol::low_latency};
/// Slots of 256 bytes, 64 elements of 4 bytes: 1021 elements make many tiles.
constexpr std::size_t kSlotBytes = 256;
const std::vector<std::size_t> kCounts = kWholeGrid
                                             ? std::vector<std::size_t>{0, 1, 2, 63, 65, 1021, 4099}
                                             : std::vector<std::size_t>{0, 1, 517};
const std::vector<int> kRanks =
    kWholeGrid ? std::vector<int>{1, 2, 3, 4, 5, 7, 8} : std::vector<int>{1, 2, 3, 5, 8};
const std::vector<std::uint64_t> kDepths =
    kWholeGrid ? std::vector<std::uint64_t>{1, 2, 8} : std::vector<std::uint64_t>{1, 8};

std::vector<int> roots(Collective collective, int ranks) {
  if (!hasRoot(collective) || ranks == 1) return {0};
  return {0, ranks - 1};
}

bool runs(const plan::Algorithm& algorithm, const plan::Spec& spec, Protocol protocol) {
  return spec.collective != Collective::sendrecv && algorithm.supports(spec) &&
         (protocol == Protocol::simple || plan::Facts(algorithm, spec).oneLane());
}

/// All calls that one algorithm supports.
std::vector<Call> callsOf(const plan::Algorithm& algorithm, int ranks, Protocol protocol) {
  std::vector<Call> calls;
  for (Collective collective : kCollectives)
    for (int root : roots(collective, ranks)) {
      if (!runs(algorithm, {collective, ranks, root, 0}, protocol)) continue;
      for (std::size_t count : kCounts)
        for (bool in_place : {false, true}) {
          if (in_place && !traits(collective).in_place) continue;
          if (collective == Collective::barrier && (count > 0 || in_place)) continue;
          calls.push_back(callOf(algorithm,
                                 {.collective = collective,
                                  .count = count,
                                  .type = DataType::int32,
                                  .root = root,
                                  .in_place = in_place},
                                 ranks));
        }
    }
  return calls;
}

std::string nameOf(Protocol protocol) {
  return protocol == Protocol::simple ? "simple" : "low latency";
}

} // namespace

// Proves: steps, tiles, lanes, flags and credits work as the plan says, for every plan.
TEST_CASE("the plan kernel runs every algorithm, on any number of ranks, in slots of any depth") {
  for (Protocol protocol : kProtocols)
    for (std::uint64_t depth : kDepths)
      for (int ranks : kRanks)
        for (const plan::Algorithm* algorithm : plan::algorithms()) {
          World world(ranks, {protocol, depth, kSlotBytes});
          INFO(nameOf(protocol) << ", depth " << depth);
          REQUIRE(world.run(callsOf(*algorithm, ranks, protocol)) == "");
        }
}

// Proves: lent data is read in place before anything else is written there, also if the call is in
// place, and before the launch ends: each rank writes new inputs after it. The thread sanitizer
// finds a rank that does not wait.
TEST_CASE("the plan kernel lends messages in every algorithm") {
  for (std::uint64_t depth : kDepths)
    for (int ranks : kRanks)
      for (const plan::Algorithm* algorithm : plan::algorithms()) {
        World world(ranks, {Protocol::simple, depth, kSlotBytes},
                    {.copies = depth == 1 ? 1u : 3u, .lends = true});
        INFO("depth " << depth);
        REQUIRE(world.run(callsOf(*algorithm, ranks, Protocol::simple)) == "");
      }
}

// Proves: owners write results directly to the receivers' outputs, with addresses that other
// threads have received, also in place, where they read the same memory. The results are not moved
// again.
TEST_CASE("the plan kernel puts the results of direct, with several threads in a block") {
  const plan::Algorithm& direct = *plan::findAlgorithm("direct");
  for (int ranks : {2, 3, 5}) {
    World world(ranks, {Protocol::simple, 1, kSlotBytes},
                {.threads = 3, .copies = 2, .lends = true});
    std::vector<Call> calls;
    for (std::size_t count : {1, 517})
      for (bool in_place : {false, true})
        for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
          calls.push_back(callOf(
              direct, {.count = count, .type = DataType::int32, .op = op, .in_place = in_place},
              ranks));
    REQUIRE(world.run(calls) == "");
    for (const auto& [channel, memory] : world.channels()) {
      const std::byte* const end = memory->inbox.data() + memory->inbox.bytes();
      CHECK(std::count(end - kSlotBytes, end, std::byte{0}) == kSlotBytes);
    }
  }
}

// Proves: the block's barriers order its threads' accesses to each other's ends, addresses and
// elements. The thread sanitizer finds any access that they do not order.
TEST_CASE("the plan kernel runs every algorithm with several threads in a block") {
  for (Protocol protocol : kProtocols)
    for (int ranks : {2, 3})
      for (const plan::Algorithm* algorithm : plan::algorithms()) {
        World world(ranks, {protocol, 2, kSlotBytes}, {.threads = 3});
        INFO(nameOf(protocol));
        REQUIRE(world.run(callsOf(*algorithm, ranks, protocol), 1) == "");
      }
}

// Proves: copies of a plan divide its tiles, and use separate channels, scratch and clocks.
TEST_CASE("the plan kernel runs every algorithm in several copies at once") {
  for (Protocol protocol : kProtocols)
    for (int ranks : {2, 5})
      for (const plan::Algorithm* algorithm : plan::algorithms()) {
        World world(ranks, {protocol, 2, kSlotBytes}, {.copies = 3});
        INFO(nameOf(protocol));
        REQUIRE(world.run(callsOf(*algorithm, ranks, protocol)) == "");
      }
}

// Proves: elements of every size and kind are converted to and from vectors, packets and messages
// of several segments, and are scaled and divided as the operator requires.
TEST_CASE("the plan kernel reduces every type by every operator") {
  for (Protocol protocol : kProtocols)
    for (int ranks : kWholeGrid ? std::vector<int>{1, 2, 4, 5} : std::vector<int>{1, 3}) {
      World world(ranks, {protocol, 2, kSlotBytes},
                  {.copies = ranks == 2 ? 2u : 1u, .lends = ranks == 3 || ranks == 5});
      std::vector<Call> calls;
      for (const char* name : {"ring", "direct", "oneshot", "tree", "double_tree", "linear"})
        for (Collective collective :
             {Collective::allreduce, Collective::reduce, Collective::reducescatter})
          for (DataType type : kDataTypes)
            for (ReduceOp op : kReduceOps) {
              const plan::Algorithm& algorithm = *plan::findAlgorithm(name);
              const int root = hasRoot(collective) ? ranks - 1 : 0;
              if (!op.supports(type) || !runs(algorithm, {collective, ranks, root, 0}, protocol))
                continue;
              // Fractions that are not exact in binary depend on the order of the sum.
              if (op == ReduceOp::avg && isFloat(type) && ranks % 2 == 1 && ranks > 1) continue;
              for (std::size_t count : {std::size_t{5}, std::size_t{301}})
                calls.push_back(callOf(algorithm,
                                       {.collective = collective,
                                        .count = count,
                                        .type = type,
                                        .op = op,
                                        .root = root,
                                        .in_place = count == 301},
                                       ranks));
            }
      INFO(nameOf(protocol) << ", " << ranks << " ranks");
      REQUIRE(world.run(calls, 1) == "");
    }
}

// Proves: an average of negative integers is computed with signed integers and rounds toward zero.
TEMPLATE_TEST_CASE("the plan kernel averages negative integers", "", std::int8_t, std::int16_t,
                   std::int32_t, std::int64_t) {
  constexpr DataType kType = sizeof(TestType) == 1   ? DataType::int8
                             : sizeof(TestType) == 2 ? DataType::int16
                             : sizeof(TestType) == 4 ? DataType::int32
                                                     : DataType::int64;
  constexpr std::size_t kCount = 37;
  World world(2, {Protocol::simple, 2, 256});
  Call call = callOf(*plan::findAlgorithm("ring"),
                     {.count = kCount, .type = kType, .op = ReduceOp::avg}, 2);
  std::vector<TestType> in[2], out[2];
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t i = 0; i < kCount; ++i)
      in[r].push_back(static_cast<TestType>(-3 - static_cast<int>(i + r)));
    out[r].resize(kCount);
    call.parts[r].input = in[r].data();
    call.parts[r].output = out[r].data();
    call.parts[r].before = call.parts[r].after = {};
  }
  REQUIRE(world.run({call}, 1) == "");
  for (std::size_t i = 0; i < kCount; ++i) // (-3-i + -4-i) / 2
    for (const auto& result : out) CHECK(static_cast<int>(result[i]) == -3 - static_cast<int>(i));
}

// Proves: floats that are only moved keep their bits, for every pattern of two bytes, signalling
// NaNs included.
TEST_CASE("the plan kernel moves any bits of floats") {
  constexpr std::size_t kPatterns = std::size_t{1} << 16;
  std::vector<std::uint16_t> sent(kPatterns), got(kPatterns), own(kPatterns);
  for (std::size_t i = 0; i < kPatterns; ++i) sent[i] = static_cast<std::uint16_t>(i);
  for (Protocol protocol : kProtocols)
    for (DataType type : kDataTypes) {
      if (!isFloat(type)) continue;
      World world(2, {protocol, 2, 4096});
      Call call = callOf(*plan::findAlgorithm("chain"),
                         {.collective = Collective::broadcast,
                          .count = kPatterns * sizeof(std::uint16_t) / sizeOf(type),
                          .type = type},
                         2);
      call.parts[0].input = sent.data();
      call.parts[0].output = own.data();
      call.parts[1].input = nullptr;
      call.parts[1].output = got.data();
      for (Part& part : call.parts) part.before = part.after = {};
      std::fill(got.begin(), got.end(), std::uint16_t{0});
      INFO(nameOf(protocol) << ", " << name(type));
      REQUIRE(world.run({call}, 1) == "");
      CHECK(got == sent);
    }
}

// Proves: moved data arrives bit for bit, for every element size, also in messages of several
// segments at any offset (bruck and scatter_allgather, odd numbers of bytes).
TEST_CASE("the plan kernel moves elements of every size") {
  for (Protocol protocol : kProtocols)
    for (int ranks : {3, 4}) {
      World world(ranks, {protocol, 2, kSlotBytes});
      std::vector<Call> calls;
      for (const plan::Algorithm* algorithm : plan::algorithms())
        for (Collective collective : kCollectives) {
          if (reduces(collective) || collective == Collective::barrier ||
              !runs(*algorithm, {collective, ranks, 0, 0}, protocol))
            continue;
          for (DataType type : {DataType::uint8, DataType::float16, DataType::float64})
            for (std::size_t count : {3, 7, 250})
              calls.push_back(callOf(
                  *algorithm, {.collective = collective, .count = count, .type = type}, ranks));
        }
      INFO(nameOf(protocol) << ", " << ranks << " ranks");
      REQUIRE(world.run(calls, 1) == "");
    }
}

// Proves: the smallest slots that the library offers are enough for every plan at depth 1.
TEST_CASE("the plan kernel needs only the smallest slots at depth 1") {
  for (Protocol protocol : kProtocols)
    for (int ranks : kWholeGrid ? std::vector<int>{5, 16} : std::vector<int>{5})
      for (const plan::Algorithm* algorithm : plan::algorithms()) {
        World world(ranks, {protocol, 1, static_cast<std::size_t>(8 * ranks)});
        std::vector<Call> calls;
        for (Collective collective : kCollectives)
          if (runs(*algorithm, {collective, ranks, ranks - 1, 0}, protocol))
            calls.push_back(callOf(*algorithm,
                                   {.collective = collective,
                                    .count = collective == Collective::barrier ? 0u : 37u,
                                    .type = DataType::int64,
                                    .root = ranks - 1},
                                   ranks));
        INFO(nameOf(protocol));
        REQUIRE(world.run(calls, 1) == "");
      }
}

// Proves: a barrier holds all ranks until the last one has entered, whichever that is. A message of
// a barrier is empty, so nothing but its label can wait.
TEST_CASE("the plan kernel's barrier ends on no rank before every rank has begun it") {
  for (Protocol protocol : kProtocols)
    for (int ranks : {2, 4, 5, 8})
      for (int late = 0; late < ranks; ++late) {
        World world(ranks, {protocol, 2, kSlotBytes}, {.threads = 4});
        Call call = callOf(*plan::findAlgorithm("dissemination"),
                           {.collective = Collective::barrier}, ranks);
        std::atomic<int> entered{0};
        for (int rank = 0; rank < ranks; ++rank) {
          Part& part = call.parts[static_cast<std::size_t>(rank)];
          part.before = [&entered, waits = rank == late] {
            if (waits) std::this_thread::sleep_for(std::chrono::milliseconds(20));
            ++entered;
          };
          part.after = [&entered, ranks] {
            return entered == ranks ? std::string() : "left before the last rank had entered";
          };
        }
        INFO(nameOf(protocol) << ", " << ranks << " ranks, the last is " << late);
        REQUIRE(world.run({call}, 1) == "");
      }
}

// Proves: plans with another division of work than the default run too.
TEST_CASE("the plan kernel runs any number of parameter servers") {
  for (int servers = 1; servers <= 5; ++servers) {
    World world(5, {Protocol::simple, 1, kSlotBytes});
    const plan::Algorithm& algorithm = *plan::findAlgorithm("parameter_server");
    REQUIRE(world.run({callOf(algorithm, {.count = 1021, .type = DataType::int32}, 5, servers)}) ==
            "");
  }
}

} // namespace rondo::test
