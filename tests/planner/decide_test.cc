// Tests decisions by predicted times, and explanations of them.
#include "planner/decide.h"

#include <algorithm>

#include "model/simulate.h"
#include "plan/facts.h"
#include "planner/explain.h"
#include "rondo/error.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using model::LinkClass;

planner::Policy on(LinkClass inside, int processors, const char* layout = "", int ranks = 0) {
  planner::Policy policy;
  policy.oversubscribed = processors > 0;
  policy.network_channels = inside == LinkClass::loopback || *layout != '\0';
  policy.layout = plan::parseLayout(layout, ranks);
  policy.site = {.inside = inside, .between = LinkClass::network, .processors = processors};
  return policy;
}

const model::Profile& defaults() { return model::defaultProfile(); }

} // namespace

// Proves: between the sizes at which times are predicted, and with only a few tiles simulated, a
// table still names a candidate that is nearly the fastest of a whole simulation.
TEST_CASE("a table's choices are the fastest predicted, or nearly") {
  for (const int ranks : {2, 4}) {
    const planner::Policy policy = on(LinkClass::shm, ranks == 4 ? 2 : 0);
    const planner::Table table = planner::decide(ranks, policy, defaults());
    const planner::SiteNetwork site(policy.site, defaults());
    for (const Collective collective : planner::kDecided)
      for (const std::size_t bytes : {std::size_t{8}, std::size_t{2000}, std::size_t{100} << 10,
                                      std::size_t{3} << 20, std::size_t{100} << 20}) {
        const plan::Spec spec{.collective = collective, .ranks = ranks};
        const auto seconds = [&](const plan::Choice& choice) {
          return model::simulate(*choice.algorithm, choice.applied(spec),
                                 {.bytes = static_cast<double>(bytes)}, site.network())
              .seconds;
        };
        double best = 1e9;
        for (const plan::Choice& choice : planner::candidates(spec))
          best = std::min(best, seconds(choice));
        const plan::Choice* chosen = table.find(collective, bytes);
        REQUIRE(chosen);
        INFO(name(collective) << " of " << bytes << " B on " << ranks << " ranks uses "
                              << chosen->text());
        CHECK(seconds(*chosen) <= 1.1 * best);
      }
  }
}

TEST_CASE("every algorithm that supports a spec is a candidate, also with parameters") {
  const plan::Spec spec{.collective = Collective::allreduce, .ranks = 4};
  std::vector<std::string> names;
  for (const plan::Choice& choice : planner::candidates(spec)) {
    CHECK(choice.algorithm->supports(choice.applied(spec)));
    names.push_back(choice.text());
  }
  for (const plan::Algorithm* algorithm : plan::supporting(spec))
    CHECK(std::count(names.begin(), names.end(), std::string(algorithm->name)) == 1);
  CHECK(std::count(names.begin(), names.end(), "parameter_server/3") == 1);
}

TEST_CASE("in deterministic mode only candidates in rank order are decided") {
  planner::Policy policy = on(LinkClass::shm, 0);
  policy.deterministic = true;
  const planner::Table table = planner::decide(4, policy, defaults());
  for (const Collective collective :
       {Collective::allreduce, Collective::reduce, Collective::reducescatter})
    for (std::size_t bytes = 8; bytes <= 64 << 20; bytes *= 8) {
      const plan::Choice* choice = table.find(collective, bytes);
      REQUIRE(choice);
      INFO(name(collective) << ": " << choice->text());
      const plan::Spec spec = choice->applied({.collective = collective, .ranks = 4});
      CHECK(plan::Facts(*choice->algorithm, spec).inRankOrder());
    }
}

TEST_CASE("devices, single ranks and very many ranks are left to the rules") {
  planner::Policy devices = on(LinkClass::shm, 0);
  devices.devices = true;
  CHECK(planner::decide(4, devices, defaults()).empty());
  CHECK(planner::decide(1, on(LinkClass::shm, 0), defaults()).empty());
  CHECK(planner::decide(planner::kMostDecidedRanks + 1, on(LinkClass::shm, 0), defaults()).empty());
  model::Profile without = defaults();
  without.links[static_cast<std::size_t>(LinkClass::shm)].reset();
  CHECK_THROWS_AS(planner::decide(4, on(LinkClass::shm, 0), without), Error);
}

// Proves: a table comes before the rules, after the user, and not for blocks of different sizes.
TEST_CASE("a table decides where the user does not") {
  planner::Policy policy;
  policy.table = std::make_shared<planner::Table>(
      planner::Table::parse("allreduce: tree to 100, ring\nallgather: bruck\n", "t"));
  const plan::Spec spec{.collective = Collective::allreduce, .ranks = 4};
  plan::PlanCache plans(0);
  using By = planner::Decision::By;
  const auto decided = [&](const plan::Spec& what, std::size_t bytes) {
    const planner::Decision made = planner::decision(what, bytes, policy, plans);
    return made.choice.text() + " by " + std::string(planner::name(made.by));
  };
  CHECK(decided(spec, 100) == "tree by model");
  CHECK(decided(spec, 101) == "ring by model");
  CHECK(decided({.collective = Collective::reduce, .ranks = 4}, 8) == "tree by rules");
  CHECK(decided({.collective = Collective::allgather, .ranks = 4}, planner::kUneven) ==
        "direct by rules");
  policy.algorithms = "direct";
  CHECK(planner::decision(spec, 100, policy, plans).by == By::user);
  CHECK(planner::decidedBy(planner::decision(spec, 100, policy, plans)) == "RONDO_ALGO");
  policy.algorithms = "?direct";
  CHECK(planner::decidedBy(planner::decision(spec, 100, policy, plans)) == "NCCL_ALGO");
  policy.algorithms = "";
  policy.deterministic = true; // a ring does not reduce in rank order
  CHECK(decided(spec, 101) == "oneshot by rules");
}

TEST_CASE("the stored table does not depend on what one job excludes") {
  planner::Policy policy = on(LinkClass::shm, 0);
  const auto atMiB = [&] {
    const planner::Table table = planner::decide(4, policy, model::defaultProfile());
    return table.find(Collective::allreduce, 1 << 20)->text();
  };
  const std::string best = atMiB();
  policy.algorithms = "^" + best.substr(0, best.find_first_of("/("));
  CHECK(atMiB() == best);
}

TEST_CASE("an explanation lists all candidates by time, and says why the first wins") {
  const plan::Spec spec{.collective = Collective::allreduce, .ranks = 2};
  const planner::Policy policy = on(LinkClass::shm, 0);
  const planner::SiteNetwork site(policy.site, defaults());
  const Explanation made = planner::explain(
      spec, {.bytes = 1 << 20}, policy, planner::decision(spec, 1 << 20, policy), site.network());
  CHECK(made.algorithm == "direct");
  CHECK(made.decided_by == "rules");
  CHECK(made.network == "profile 'default', links shm");
  CHECK(made.candidates.size() == planner::candidates(spec).size());
  for (const Explanation::Candidate& one : made.candidates) {
    CHECK(one.latency + one.bytes + one.reduction + one.contention == Approx(one.seconds));
    CHECK(one.seconds >= made.candidates[0].seconds);
  }
  CHECK(made.why.find("is predicted to be the fastest") != std::string::npos);
  CHECK(made.why.find("the call uses") != std::string::npos);
}

TEST_CASE("an explanation says what the call's algorithm loses, and on what") {
  const plan::Spec spec{.collective = Collective::allreduce, .ranks = 8};
  model::Profile slow = defaults();
  for (auto& link : slow.links) { // a message costs a second, and bytes cost nothing
    link->alpha = 1;
    link->slot_bytes = 1 << 30;
  }
  const planner::Policy policy = on(LinkClass::shm, 0);
  const planner::SiteNetwork site(policy.site, slow);
  const Explanation made = planner::explain(
      spec, {.bytes = 1 << 20}, policy, planner::decision(spec, 1 << 20, policy), site.network());
  CHECK(made.candidates[0].algorithm == "oneshot");
  CHECK(made.why.find("; the call uses direct, which is predicted to take 100% longer: ") !=
        std::string::npos);
  CHECK(made.why.ends_with(" more on latency."));
}

TEST_CASE("an explanation has no candidate that may not serve the call") {
  const plan::Spec spec{.collective = Collective::allreduce, .ranks = 9};
  planner::Policy policy = on(LinkClass::shm, 0);
  const planner::SiteNetwork site(policy.site, defaults());
  const auto has = [&](const std::string& name) {
    const Explanation made =
        planner::explain(spec, {.bytes = 16 << 20}, policy,
                         planner::decision(spec, 16 << 20, policy), site.network());
    CHECK(made.candidates.size() > 1);
    return std::ranges::any_of(
        made.candidates, [&](const Explanation::Candidate& one) { return one.algorithm == name; });
  };
  CHECK(has("ring"));
  CHECK(has("direct"));
  policy.algorithms = "^ring";
  CHECK_FALSE(has("ring"));
  CHECK(has("direct"));
  policy.algorithms.clear();
  policy.deterministic = true; // a ring does not reduce in rank order
  CHECK_FALSE(has("ring"));
  CHECK(has("direct"));
}

// Proves: where nothing takes time, candidates are equally fast, and no share of a time is named.
TEST_CASE("an explanation of a call that takes no time") {
  const plan::Spec spec{.collective = Collective::allgather, .ranks = 1};
  const model::Profile ideal = model::idealProfile(1e-6, 1e-10);
  const planner::Policy policy = on(LinkClass::shm, 0);
  const planner::SiteNetwork site(policy.site, ideal);
  planner::Decision decided = planner::decision(spec, 0, policy);
  for (const plan::Choice& one : planner::candidates(spec)) {
    decided.choice = one;
    const Explanation made = planner::explain(spec, {.bytes = 0}, policy, decided, site.network());
    REQUIRE(made.candidates[0].seconds == 0);
    INFO(made.why);
    CHECK(made.why.find('%') == std::string::npos);
    CHECK(made.why.find(", in a tie with ") != std::string::npos);
    const bool first = one.text() == made.candidates[0].algorithm;
    CHECK(made.why.ends_with(first ? "; the call uses it."
                                   : ", which is as fast within the model's error."));
  }
}

// Proves: an explanation costs no more for a larger call, and leaves no candidate out.
TEST_CASE("an explanation of a very large call has all candidates") {
  const plan::Spec spec{.collective = Collective::allreduce, .ranks = 8};
  const planner::Policy policy = on(LinkClass::shm, 0);
  const planner::SiteNetwork site(policy.site, defaults());
  const auto explained = [&](double bytes) {
    return planner::explain(spec, {.bytes = bytes}, policy,
                            planner::decision(spec, 1 << 20, policy), site.network());
  };
  const Explanation large = explained(1e12), larger = explained(1e14);
  CHECK(larger.candidates.size() == planner::candidates(spec).size());
  for (std::size_t i = 0; i < larger.candidates.size(); ++i)
    CHECK(larger.candidates[i].seconds == Approx(100 * large.candidates[i].seconds).epsilon(0.05));
}

// A decision must not change unseen. If the model, an algorithm or the profile changes on purpose,
// write the new table here, and raise kTableVersion in planner/stored.cc.
TEST_CASE("decisions of the default profile, written out") {
  struct Golden {
    int ranks;
    planner::Policy policy;
    const char* table;
  };
  const Golden golden[] = {
      {2, on(LinkClass::shm, 0),
       "allreduce: oneshot to 49152, direct\n"
       "reduce: linear to 12288, chain\n"
       "reducescatter: direct\n"
       "broadcast: tree to 6144, scatter_allgather to 49152, chain\n"
       "scatter: linear\n"
       "gather: linear\n"
       "allgather: direct\n"
       "alltoall: pairwise\n"},
      {4, on(LinkClass::shm, 2),
       "allreduce: butterfly to 6144, parameter_server/2 to 3145728, direct\n"
       "reduce: linear to 49152, chain\n"
       "reducescatter: halving to 384, direct to 768, halving to 49152, direct\n"
       "broadcast: linear to 1536, tree to 12288, linear to 24576, scatter_allgather to 786432, "
       "chain\n"
       "scatter: linear\n"
       "gather: linear to 6144, linear/3\n"
       "allgather: bruck to 48, direct\n"
       "alltoall: bruck to 12, direct\n"},
      {8, on(LinkClass::loopback, 2),
       "allreduce: parameter_server to 24576, parameter_server/2 to 786432, direct\n"
       "reduce: linear to 196608, chain\n"
       "reducescatter: halving to 98304, direct to 393216, halving to 786432, direct\n"
       "broadcast: linear to 6144, tree to 12288, linear to 196608, scatter_allgather to 1572864, "
       "chain\n"
       "scatter: linear\n"
       "gather: linear to 6144, linear/4\n"
       "allgather: bruck to 49152, direct to 786432, ring\n"
       "alltoall: bruck to 12288, direct to 3145728, pairwise\n"},
      {8, on(LinkClass::shm, 0, "4x2", 8),
       "allreduce: oneshot to 384, butterfly to 768, hierarchical\n"
       "reduce: linear to 768, tree to 196608, chain to 1572864, hierarchical\n"
       "reducescatter: hierarchical\n"
       "broadcast: linear to 768, tree to 6144, scatter_allgather to 393216, chain to 1572864, "
       "hierarchical\n"
       "scatter: linear\n"
       "gather: linear to 6144, linear/4\n"
       "allgather: hierarchical\n"
       "alltoall: hierarchical to 768, direct to 6144, pairwise\n"},
  };
  for (const Golden& row : golden) {
    INFO(row.ranks << " ranks, " << model::name(row.policy.site.inside) << ", layout '"
                   << plan::text(row.policy.layout) << "'");
    CHECK(planner::decide(row.ranks, row.policy, defaults()).text() == row.table);
  }
}

} // namespace rondo::test
