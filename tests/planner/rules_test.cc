// Tests the planner's rules, written out: a threshold that changes must be changed here too.
#include "planner/rules.h"

#include <string>
#include <vector>

#include "plan/plan_cache.h"
#include "support/grid.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr int kMostRanks = kWholeGrid ? 70 : 10; // no rule distinguishes larger numbers

/// "oneshot to 32768, direct": the algorithms by size of block. Every boundary is found to the
/// byte.
std::string bySize(const plan::Spec& spec, const planner::Policy& policy, plan::PlanCache& plans) {
  const auto word = [&](std::size_t bytes) {
    return planner::choose(spec, bytes, policy, plans).text();
  };
  std::vector<std::size_t> looks{0};
  for (std::size_t power = 1; power <= std::size_t{1} << 40; power *= 2)
    for (const std::size_t bytes : {power - 1, power, power + 1})
      if (bytes > looks.back()) looks.push_back(bytes);
  std::string text;
  std::string at = word(0);
  for (std::size_t i = 1; i < looks.size(); ++i) {
    const std::string next = word(looks[i]);
    if (next == at) continue;
    std::size_t below = looks[i - 1], above = looks[i];
    while (above - below > 1) {
      const std::size_t middle = below + (above - below) / 2;
      (word(middle) == at ? below : above) = middle;
    }
    text += at + " to " + std::to_string(below) + ", ";
    at = next;
  }
  return text + at;
}

/// One line per range of rank counts with equal rules: "1-2: oneshot to 32768, direct".
std::vector<std::string> rules(Collective collective, const planner::Policy& policy) {
  std::vector<std::string> lines;
  std::string text;
  int from = 1;
  const auto close = [&](int to) {
    lines.push_back(
        (from == to ? std::to_string(from)
                    : std::to_string(from) + "-" + (to == kMostRanks ? "" : std::to_string(to))) +
        ": " + text);
  };
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    plan::PlanCache plans(0);
    const std::string now = bySize(
        {.collective = collective, .ranks = ranks, .multicast = policy.multicast}, policy, plans);
    if (ranks > 1 && now != text) {
      close(ranks - 1);
      from = ranks;
    }
    text = now;
  }
  close(kMostRanks);
  return lines;
}

const planner::Policy kOwn{.algorithms = {}};
const planner::Policy kOwnNetwork{.algorithms = {}, .network_channels = true};
const planner::Policy kCrowded{.algorithms = {}, .oversubscribed = true};
const planner::Policy kCrowdedNetwork{
    .algorithms = {}, .oversubscribed = true, .network_channels = true};

planner::Policy ordered(planner::Policy policy) {
  policy.deterministic = true;
  return policy;
}
planner::Policy onDevices(planner::Policy policy) {
  policy.devices = true;
  return policy;
}
planner::Policy switched(planner::Policy policy) {
  policy.multicast = true;
  return policy;
}

using Lines = std::vector<std::string>;

void same(Collective collective, const std::vector<planner::Policy>& policies,
          const Lines& expected) {
  for (const planner::Policy& policy : policies) {
    INFO(name(collective) << (policy.oversubscribed ? ", oversubscribed" : "")
                          << (policy.network_channels ? ", network channels" : "")
                          << (policy.devices ? ", devices" : "")
                          << (policy.deterministic ? ", deterministic" : ""));
    CHECK(rules(collective, policy) == expected);
  }
}

} // namespace

TEST_CASE("reductions use what was measured or modelled, size by size") {
  same(Collective::allreduce, {kOwn},
       {"1-2: oneshot to 32768, direct", "3: oneshot to 8192, direct",
        "4: butterfly to 32768, direct", "5-7: oneshot to 8192, direct",
        "8: butterfly to 8192, direct to 4194304, ring",
        "9-: butterfly to 8192, halving_doubling to 262144, ring"});
  same(Collective::allreduce, {kOwnNetwork},
       {"1-2: oneshot to 131072, direct", "3-8: oneshot to 8192, direct",
        "9-: butterfly to 8192, halving_doubling to 262144, ring"});
  same(Collective::allreduce, {onDevices(kOwn)},
       {"1-2: oneshot to 32768, direct", "3-8: oneshot to 8192, direct",
        "9-: butterfly to 8192, halving_doubling to 262144, ring"});
  same(Collective::allreduce, {kCrowded},
       {"1-2: oneshot to 32768, direct",
        "3: oneshot to 32768, parameter_server/2 to 2097152, direct",
        "4: oneshot to 8192, parameter_server/2 to 2097152, direct",
        "5: oneshot to 4096, parameter_server to 32768, parameter_server/2 to 2097152, direct",
        "6-8: parameter_server to 32768, parameter_server/2 to 1048576, direct",
        "9-: parameter_server to 262144, tree to 1048576, ring"});
  same(Collective::allreduce, {kCrowdedNetwork},
       {"1-2: oneshot to 131072, direct",
        "3: butterfly to 32768, parameter_server/2 to 4194304, direct",
        "4: butterfly to 32768, parameter_server/2 to 1048576, direct",
        "5-7: parameter_server to 32768, parameter_server/2",
        "8: parameter_server to 32768, parameter_server/2 to 131072, halving_doubling to 524288, "
        "direct",
        "9-: butterfly to 8192, halving_doubling to 262144, ring"});
  same(Collective::reduce, {kOwn},
       {"1-3: linear to 8192, chain", "4: tree to 131072, chain", "5-8: tree to 2097152, chain",
        "9-: tree to 8192, chain"});
  same(Collective::reduce, {kOwnNetwork, onDevices(kOwn)},
       {"1-8: linear to 8192, chain", "9-: tree to 8192, chain"});
  same(
      Collective::reduce, {kCrowded},
      {"1-3: linear to 262144, chain", "4-8: linear to 2097152, chain", "9-: tree to 8192, chain"});
  same(Collective::reduce, {kCrowdedNetwork}, {"1-8: linear", "9-: tree to 8192, chain"});
  same(Collective::reducescatter, {kOwn, kOwnNetwork, kCrowded},
       {"1-8: direct", "9-: halving to 262144, ring"});
  same(Collective::reducescatter, {kCrowdedNetwork},
       {"1-8: halving to 65536, direct", "9-: halving to 262144, ring"});
}

// Proves: a switch is chosen when the model predicts that it is best, not in deterministic mode,
// and no other collective's choice depends on it.
TEST_CASE("a switch between GPUs serves large sums of many ranks") {
  same(Collective::allreduce, {switched(onDevices(kOwn))},
       {"1-2: oneshot to 32768, direct", "3: oneshot to 8192, direct",
        "4-8: oneshot to 8192, direct to 262144, nvls",
        "9-: butterfly to 8192, halving_doubling to 262144, nvls"});
  for (const Collective collective : kCollectives) {
    if (collective == Collective::sendrecv) continue;
    INFO(name(collective));
    const planner::Policy none = onDevices(kOwn);
    if (collective != Collective::allreduce)
      CHECK(rules(collective, switched(none)) == rules(collective, none));
    CHECK(rules(collective, switched(ordered(none))) == rules(collective, ordered(none)));
  }
}

TEST_CASE("movements use what was measured or modelled, size by size") {
  same(Collective::broadcast, {kOwn},
       {"1-3: tree to 8192, chain", "4-8: tree to 32768, scatter_allgather",
        "9-: tree to 8192, chain"});
  same(Collective::broadcast, {kOwnNetwork, onDevices(kOwn)}, {"1-: tree to 8192, chain"});
  same(Collective::broadcast, {kCrowded},
       {"1-2: tree to 8192, linear to 262144, chain",
        "3-4: tree to 8192, linear to 262144, scatter_allgather to 2097152, chain",
        "5-8: tree to 8192, linear to 2097152, chain", "9-: tree to 8192, chain"});
  same(Collective::broadcast, {kCrowdedNetwork},
       {"1-4: chain to 8192, linear to 262144, chain", "5-8: tree to 8192, linear to 262144, chain",
        "9-: tree to 8192, chain"});
  same(Collective::scatter, {kOwn},
       {"1-4: linear", "5-8: tree to 2048, linear", "9-: tree to 8192, linear"});
  same(Collective::scatter, {kOwnNetwork, onDevices(kOwn), kCrowded},
       {"1-8: linear", "9-: tree to 8192, linear"});
  same(Collective::scatter, {kCrowdedNetwork},
       {"1-8: tree to 128, linear", "9-: tree to 8192, linear"});
  same(Collective::gather, {kOwn}, {"1-8: linear", "9-: tree to 8192, linear/4"});
  same(Collective::gather, {kOwnNetwork, kCrowded, kCrowdedNetwork},
       {"1-2: linear", "3: linear to 4096, linear/2", "4: linear to 4096, linear/3",
        "5-8: linear to 4096, linear/4", "9-: tree to 8192, linear/4"});
  same(Collective::allgather, {kOwn, kOwnNetwork, kCrowded},
       {"1-8: direct", "9-: bruck to 8192, ring"});
  same(Collective::allgather, {kCrowdedNetwork},
       {"1-3: direct", "4: bruck to 8192, direct to 32768, ring to 524288, direct",
        "5-8: bruck to 8192, direct to 524288, ring", "9-: bruck to 8192, ring"});
  same(Collective::alltoall, {kOwn},
       {"1-2: pairwise", "3-7: direct", "8: bruck to 1024, direct", "9-: bruck to 512, pairwise"});
  same(Collective::alltoall, {kOwnNetwork, onDevices(kOwn)},
       {"1-8: pairwise", "9-: bruck to 512, pairwise"});
  same(Collective::alltoall, {kCrowded}, {"1-8: direct", "9-: bruck to 512, pairwise"});
  same(Collective::alltoall, {kCrowdedNetwork},
       {"1-2: bruck to 4096, direct to 2097152, pairwise", "3: direct",
        "4-8: bruck to 4096, direct to 2097152, pairwise", "9-: bruck to 512, pairwise"});
  same(Collective::barrier, {kOwn, kOwnNetwork, kCrowded, kCrowdedNetwork}, {"1-: dissemination"});
}

TEST_CASE("deterministic mode uses only what is proved to reduce in rank order") {
  same(Collective::allreduce, {ordered(kOwn)},
       {"1-2: oneshot to 32768, direct", "3-8: oneshot to 8192, direct", "9-: direct"});
  same(Collective::allreduce, {ordered(kOwnNetwork)},
       {"1-2: oneshot to 131072, direct", "3-8: oneshot to 8192, direct", "9-: direct"});
  same(Collective::allreduce, {ordered(kCrowded)},
       {"1-2: oneshot to 32768, direct",
        "3: oneshot to 32768, parameter_server/2 to 2097152, direct",
        "4: oneshot to 8192, parameter_server/2 to 2097152, direct",
        "5: oneshot to 4096, parameter_server to 32768, parameter_server/2 to 2097152, direct",
        "6-8: parameter_server to 32768, parameter_server/2 to 1048576, direct",
        "9-: parameter_server to 262144, direct"});
  same(Collective::allreduce, {ordered(kCrowdedNetwork)},
       {"1-2: oneshot to 131072, direct", "3: parameter_server/2 to 4194304, direct",
        "4: parameter_server/2 to 1048576, direct",
        "5-7: parameter_server to 32768, parameter_server/2",
        "8: parameter_server to 32768, parameter_server/2 to 131072, direct", "9-: direct"});
  same(Collective::reduce, {ordered(kOwn), ordered(kOwnNetwork)},
       {"1-2: linear to 8192, chain", "3-: linear"});
  same(Collective::reduce, {ordered(kCrowded)}, {"1-2: linear to 262144, chain", "3-: linear"});
  same(Collective::reduce, {ordered(kCrowdedNetwork)}, {"1-: linear"});
  same(Collective::reducescatter, {ordered(kOwn), ordered(kOwnNetwork), ordered(kCrowded)},
       {"1-: direct"});
  same(Collective::reducescatter, {ordered(kCrowdedNetwork)},
       {"1-2: halving to 65536, direct", "3-: direct"});
}

TEST_CASE("on devices a Gather takes one lane") {
  same(Collective::gather,
       {onDevices(kOwn), onDevices(kOwnNetwork), onDevices(kCrowded), onDevices(kCrowdedNetwork)},
       {"1-8: linear", "9-: tree to 8192, linear"});
}

TEST_CASE("over several nodes of several ranks large blocks are composed, and only those") {
  const auto on = [](Collective collective, const char* layout, const planner::Policy& policy) {
    plan::PlanCache plans(0);
    return bySize({.collective = collective, .ranks = 8, .layout = plan::parseLayout(layout)},
                  policy, plans);
  };
  using enum Collective;
  for (const char* layout : {"4x2", "3,1,4", "0.1.2.3.0.1.2.3"}) {
    CAPTURE(layout);
    CHECK(on(allreduce, layout, kOwnNetwork) == "oneshot to 8192, direct to 2097151, hierarchical");
    CHECK(on(allreduce, layout, kCrowdedNetwork) ==
          "parameter_server to 32768, parameter_server/2 to 131072, "
          "halving_doubling to 524288, direct to 2097151, "
          "hierarchical");
    CHECK(on(allgather, layout, kOwnNetwork) == "direct to 262143, hierarchical");
    CHECK(on(reducescatter, layout, kOwnNetwork) == "direct to 262143, hierarchical");
    CHECK(on(broadcast, layout, kOwnNetwork) == "tree to 8192, chain to 2097151, hierarchical");
    CHECK(on(reduce, layout, kOwnNetwork) == "linear to 8192, chain to 2097151, hierarchical");
    CHECK(on(alltoall, layout, kOwnNetwork) == "pairwise");
    CHECK(on(barrier, layout, kOwnNetwork) == "dissemination");
    CHECK(on(gather, layout, kOwnNetwork) == "linear to 4096, linear/4");
    CHECK(on(scatter, layout, kOwnNetwork) == "linear");
    CHECK(on(allreduce, layout, ordered(kOwnNetwork)) == "oneshot to 8192, direct");
    CHECK(on(allreduce, layout, onDevices(kOwnNetwork)) == "oneshot to 8192, direct");
    plan::PlanCache plans(0);
    const plan::Spec uneven{
        .collective = allgather, .ranks = 8, .layout = plan::parseLayout(layout)};
    CHECK(planner::choose(uneven, planner::kUneven, kOwnNetwork, plans).text() == "direct");
  }
  for (const char* layout : {"1x8", "8x1", ""})
    CHECK(on(allreduce, layout, kOwnNetwork) == "oneshot to 8192, direct");
}

} // namespace rondo::test
