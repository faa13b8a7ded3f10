// Decisions for three described networks, written out, so that none changes unseen.
#include "model/simulate.h"
#include "planner/decide.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using model::Curve;
using model::Levels;
using model::LinkClass;
using model::LinkProfile;
using model::Nic;

constexpr double kMicro = 1e-6, kKiB = 1024, kMiB = 1024 * kKiB;

/// Seconds per byte.
constexpr double gbs(double gigabytes_per_second) { return 1e-9 / gigabytes_per_second; }

/// Ranks of a node: each copies a byte in and out of a slot at 20 GB/s.
LinkProfile sharedMemory() {
  return {.alpha = 0.05 * kMicro,
          .send_overhead = 0.05 * kMicro,
          .receive_overhead = 0.05 * kMicro,
          .send = Curve(gbs(20)),
          .receive = Curve(gbs(20)),
          .wire = {},
          .mapped = true,
          .slot_bytes = 128 * kKiB,
          .depth = 8};
}

/// Sockets between nodes, whose ranks share an interface.
LinkProfile ethernet(double alpha, double wire) {
  return {.alpha = alpha,
          .send_overhead = 2 * kMicro,
          .receive_overhead = 2 * kMicro,
          .send = Curve(gbs(8)),
          .receive = Curve(gbs(8)),
          .wire = Curve(gbs(wire)),
          .nic = Nic::node,
          .slot_bytes = 256 * kKiB,
          .depth = 4};
}

/// A machine of this test's own: the default profile may change without changing these decisions.
model::Profile profile(const LinkProfile& between) {
  model::Profile made;
  made.name = "test";
  made.turn = 0.2 * kMicro;
  made.copy = Levels({{128 * kKiB, gbs(60)}, {256 * kMiB, gbs(15)}});
  made.memory = Levels({{2 * kMiB, gbs(2000)}, {128 * kMiB, gbs(50)}});
  made.reduce.fill(Levels({{128 * kKiB, gbs(60)}, {256 * kMiB, gbs(10)}}));
  made.links[static_cast<std::size_t>(LinkClass::shm)] = sharedMemory();
  made.links[static_cast<std::size_t>(LinkClass::network)] = between;
  return made;
}

planner::Policy on(const char* layout, int ranks) {
  planner::Policy policy;
  policy.layout = plan::parseLayout(layout, ranks);
  policy.network_channels = *layout != '\0';
  policy.site = {.inside = LinkClass::shm, .between = LinkClass::network};
  return policy;
}

std::string decided(const model::Profile& profile, const char* layout, int ranks) {
  return planner::decide(ranks, on(layout, ranks), profile).text();
}

} // namespace

// If the model, an algorithm or the table's sizes change on purpose, write the new tables here, and
// raise kTableVersion in planner/stored.cc.
TEST_CASE("decisions for shared memory, a processor for each rank") {
  const model::Profile machine = profile(ethernet(10 * kMicro, 1.2));
  CHECK(decided(machine, "", 4) ==
        "allreduce: butterfly to 6144, halving_doubling to 49152, direct\n"
        "reduce: linear to 49152, tree to 98304, chain\n"
        "reducescatter: halving to 1536, direct\n"
        "broadcast: linear to 3072, scatter_allgather to 786432, chain\n"
        "scatter: linear\n"
        "gather: linear\n"
        "allgather: bruck to 384, direct\n"
        "alltoall: direct\n");
  CHECK(decided(machine, "", 8) ==
        "allreduce: butterfly to 3072, halving_doubling to 49152, direct to 6291456, ring\n"
        "reduce: linear to 49152, tree to 196608, chain\n"
        "reducescatter: halving to 6144, direct\n"
        "broadcast: linear to 3072, scatter_allgather to 786432, chain\n"
        "scatter: tree to 96, linear\n"
        "gather: linear\n"
        "allgather: bruck to 1536, direct\n"
        "alltoall: bruck to 384, direct\n");
}

TEST_CASE("decisions for Ethernet of 10 Gb/s") {
  const model::Profile machine = profile(ethernet(10 * kMicro, 1.2));
  CHECK(decided(machine, "4x1", 4) ==
        "allreduce: oneshot to 6144, butterfly to 12288, direct to 1572864, "
        "parameter_server/3\n"
        "reduce: linear to 24576, tree to 786432, chain\n"
        "reducescatter: direct\n"
        "broadcast: linear to 12288, scatter_allgather to 1572864, chain\n"
        "scatter: linear\n"
        "gather: linear to 6144, linear/3\n"
        "allgather: direct\n"
        "alltoall: direct\n");
  CHECK(decided(machine, "4x2", 8) ==
        "allreduce: butterfly to 6144, hierarchical\n"
        "reduce: linear to 3072, tree to 393216, hierarchical to 786432, chain to 1572864, "
        "hierarchical\n"
        "reducescatter: hierarchical to 24576, ring\n"
        "broadcast: linear to 1536, tree to 12288, scatter_allgather to 786432, chain to "
        "1572864, hierarchical\n"
        "scatter: linear\n"
        "gather: linear to 1536, linear/2 to 6144, linear/4\n"
        "allgather: hierarchical\n"
        "alltoall: hierarchical to 6144, direct to 49152, pairwise to 393216, direct\n");
}

TEST_CASE("decisions for Ethernet of 1 Gb/s with a delay of 1 ms") {
  const model::Profile machine = profile(ethernet(1000 * kMicro, 0.12));
  CHECK(decided(machine, "4x1", 4) ==
        "allreduce: oneshot to 98304, direct to 3145728, parameter_server/3\n"
        "reduce: linear to 98304, tree to 786432, chain\n"
        "reducescatter: direct\n"
        "broadcast: linear to 98304, tree to 196608, scatter_allgather to 786432, chain\n"
        "scatter: linear\n"
        "gather: linear to 6144, linear/3\n"
        "allgather: direct\n"
        "alltoall: direct\n");
  CHECK(decided(machine, "4x2", 8) ==
        "allreduce: oneshot to 12288, hierarchical\n"
        "reduce: linear to 24576, tree to 393216, chain to 1572864, hierarchical\n"
        "reducescatter: direct to 768, hierarchical\n"
        "broadcast: linear to 24576, tree to 196608, scatter_allgather to 786432, chain to "
        "1572864, hierarchical\n"
        "scatter: linear\n"
        "gather: linear to 6144, linear/4 to 196608, tree\n"
        "allgather: direct to 768, hierarchical\n"
        "alltoall: hierarchical to 6144, direct\n");
}

} // namespace rondo::test
