// The plan kernel on a GPU, all ranks on one: what the host tests cannot show is that the GPU's
// block does what they assume of one (barriers, memory orders and scopes, packets in one piece, the
// clock), and that all blocks are resident.
#include <algorithm>
#include <thread>

#include "engine/device_program.h"
#include "kernels/cuda/plan/gpu/device_world.h"
#include "plan/facts.h"
#include "plan/registry.h"
#include "rondo/error.h"
#include "support/test.h"
#include "tests/kernels/gpu/gpu.h"

namespace rondo::test {
namespace {

using device::Protocol;
using device::Report;

constexpr Protocol kProtocols[] = {Protocol::simple, Protocol::low_latency};

bool runs(const plan::Algorithm& algorithm, const plan::Spec& spec, Protocol protocol) {
  return spec.collective != Collective::sendrecv && algorithm.supports(spec) &&
         (protocol == Protocol::simple || plan::Facts(algorithm, spec).oneLane());
}

/// Four, or as many as the GPU holds at once where plans have up to four lanes: with 8 ranks, four
/// take 128 multiprocessors.
std::uint32_t mostCopies(int ranks) {
  int multiprocessors = 0;
  cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  return static_cast<std::uint32_t>(std::clamp(multiprocessors / (4 * ranks), 1, 4));
}

} // namespace

// Proves: every algorithm ends, with the right result, as launches and as replays of a graph.
TEST_CASE("every algorithm runs on 1 to 8 ranks of one GPU") {
  NEEDS_GPU();
  for (Protocol protocol : kProtocols)
    for (int ranks : {1, 2, 3, 4, 5, 7, 8})
      for (std::uint32_t copies : {1u, mostCopies(ranks)}) {
        DeviceWorld world(ranks, {protocol, 2, 4096}, copies);
        for (const plan::Algorithm* algorithm : plan::algorithms())
          for (Collective collective : kCollectives) {
            const int root = hasRoot(collective) ? ranks - 1 : 0;
            if (!runs(*algorithm, {collective, ranks, root, 0}, protocol)) continue;
            for (std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{40'001}}) {
              if (collective == Collective::barrier && count > 0) continue;
              INFO(algorithm->name << ", " << ranks << " ranks, " << copies << " copies");
              REQUIRE(world.run(*algorithm,
                                {.collective = collective,
                                 .count = count,
                                 .type = DataType::float32,
                                 .root = root,
                                 .in_place = count == 1 && collective != Collective::alltoall},
                                2, count == 1) == "");
            }
          }
      }
}

// Proves: the device's conversions and operators give the CPU's bits inside the plan kernel too.
TEST_CASE("every type and operator is reduced on a GPU") {
  NEEDS_GPU();
  for (Protocol protocol : kProtocols) {
    DeviceWorld world(2, {protocol, 8, 4096}, 2);
    for (DataType type : kDataTypes)
      for (ReduceOp op : kReduceOps)
        if (op.supports(type)) {
          INFO(name(type) << " " << name(op));
          REQUIRE(world.run(*plan::findAlgorithm("ring"), {.count = 10'007, .type = type, .op = op},
                            1, false) == "");
        }
  }
}

// Proves, under tools/gpu_check's sanitizers: no access outside of what was allocated, no race in a
// block's shared memory, no barrier that only some threads reach. Few messages: these are slow.
void runShort(int ranks) {
  for (Protocol protocol : kProtocols) {
    DeviceWorld world(ranks, {protocol, 2, 4096}, 2);
    world.timeout = std::chrono::seconds(5);
    for (const char* algorithm : {"ring", "direct", "tree"}) {
      if (!runs(*plan::findAlgorithm(algorithm), {Collective::allreduce, ranks, 0, 0}, protocol))
        continue;
      INFO(algorithm << ", " << ranks << " ranks");
      REQUIRE(world.run(*plan::findAlgorithm(algorithm),
                        {.count = 3001, .type = DataType::bfloat16}, 1, false) == "");
    }
  }
}
TEST_CASE("a few messages of one rank", "[sanitize]") {
  NEEDS_GPU();
  runShort(1);
}
// Apart: it needs kernels that run at the same time.
TEST_CASE("a few messages between two ranks", "[sanitize]") {
  NEEDS_GPU();
  runShort(2);
}

// Proves: a kernel that waits in vain ends by its deadline, or at once by the host's word, and the
// device goes on.
TEST_CASE("a launch that waits in vain ends by deadline and by abort") {
  NEEDS_GPU();
  const CollectiveCase one{.count = 10'000, .type = DataType::float32};
  for (Protocol protocol : kProtocols)
    for (bool aborted : {false, true}) {
      DeviceWorld world(2, {protocol, 2, 4096}, 2);
      world.alone = 0;
      world.timeout = aborted ? std::chrono::seconds(30) : std::chrono::seconds(1);
      const auto begin = std::chrono::steady_clock::now();
      std::jthread host;
      if (aborted)
        host = std::jthread([&world] {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          world.abort(0);
        });
      CHECK(world.run(*plan::findAlgorithm("ring"), one, 1, false) != "");
      CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
      CHECK(world.panel(0).report.reason ==
            (aborted ? Report::Reason::aborted : Report::Reason::timeout));
      DeviceWorld next(2, {protocol, 2, 4096}, 2);
      CHECK(next.run(*plan::findAlgorithm("ring"), one, 1, false) == "");
    }
}

// Proves: without a GPU, the look-up says what is missing.
TEST_CASE("a plan's kernel is refused where there is no GPU") {
  if (noGpu().empty()) return;
  CHECK_THROWS_AS(kernels::cuda::PlanFunction(device::ProgramHeader{}), Error);
}

} // namespace rondo::test
