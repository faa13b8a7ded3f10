// Tests that the planner always chooses an algorithm that can serve the call, and one in rank order
// in deterministic mode.
#include "planner/choose.h"

#include "plan/facts.h"
#include "rondo/error.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {

TEST_CASE("every call gets an algorithm that supports it, in rank order in deterministic mode") {
  for (Collective collective : kCollectives) {
    if (collective == Collective::sendrecv) continue;
    for (int ranks : {1, 2, 3, 5, 8, 9, 16, 33})
      for (std::size_t bytes :
           {std::size_t{0}, std::size_t{100}, std::size_t{1} << 16, std::size_t{1} << 30})
        for (int bits = 0; bits < 8; ++bits) {
          const bool deterministic = bits & 1;
          plan::Spec spec{collective, ranks, ranks - 1, 0};
          const plan::Choice choice =
              planner::choose(spec, bytes, {"", deterministic, (bits & 2) != 0, (bits & 4) != 0});
          INFO(name(collective) << " of " << ranks << " ranks uses " << choice.text());
          spec.parameter = choice.parameter;
          REQUIRE(choice.algorithm->supports(spec));
          if (deterministic) REQUIRE(plan::Facts(*choice.algorithm, spec).inRankOrder());
        }
  }
}

TEST_CASE("a list restricts only what it names, and says why it cannot serve") {
  const plan::Spec allreduce{Collective::allreduce, 4, 0, 0};
  CHECK(planner::choose(allreduce, 8, {"ring"}).text() == "ring");
  CHECK(planner::choose(allreduce, 8, {"parameter_server/2"}).text() == "parameter_server/2");
  CHECK(planner::choose({Collective::barrier, 4, 0, 0}, 0, {"ring"}).algorithm != nullptr);
  REQUIRE_THROWS_AS(planner::choose(allreduce, 8, {"ring", true}), Error);
}

TEST_CASE("a wish is followed if possible, otherwise the rules choose") {
  const plan::Spec allreduce{Collective::allreduce, 4, 0, 0};
  CHECK(planner::choose(allreduce, 8, {"?ring"}).text() == "ring");
  CHECK(planner::choose(allreduce, 8, {"?ring", true}).text() ==
        planner::choose(allreduce, 8, {"", true}).text());
  CHECK(planner::choose(allreduce, 8, {"?nvls"}).text() ==
        planner::choose(allreduce, 8, {""}).text());
}

TEST_CASE("after an exclusion the planner chooses among the other algorithms as usual") {
  const auto chosen = [](const std::string& list, std::size_t bytes, bool deterministic = false) {
    return planner::decision({.collective = Collective::allreduce, .ranks = 8}, bytes,
                             {.algorithms = list, .deterministic = deterministic});
  };
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 14, std::size_t{1} << 26})
    for (const char* unused : {"^nvls", "?^nvls", "allreduce:^bruck,nvls"}) {
      INFO(unused << ", " << bytes << " B");
      const planner::Decision decided = chosen(unused, bytes);
      CHECK(decided.choice.text() == chosen("", bytes).choice.text());
      CHECK(decided.by == planner::Decision::By::rules);
    }
  REQUIRE(chosen("", 1 << 26).choice.text() == "ring");
  const std::string other = chosen("^ring", 1 << 26).choice.text();
  CHECK(other != "ring");
  CHECK(other != "oneshot"); // the first in the table of algorithms
}

// Proves: what the rules name for deterministic mode alone is not taken for the next best.
TEST_CASE("after an exclusion, an algorithm for deterministic mode is no better than others") {
  const auto chosen = [](Collective collective, int ranks, std::size_t bytes, const char* list,
                         bool deterministic = false) {
    return planner::decision({.collective = collective, .ranks = ranks}, bytes,
                             {.algorithms = list, .deterministic = deterministic});
  };
  constexpr std::size_t kLarge = 64 << 20;
  using enum Collective;
  for (const Collective collective : {scan, exclusivescan}) {
    CHECK(chosen(collective, 8, kLarge, "^chain").choice.text() == "hillis_steele");
    CHECK(chosen(collective, 8, kLarge, "^chain", true).choice.text() == "oneshot");
    CHECK(chosen(collective, 8, 100 << 10, "^hillis_steele").choice.text() == "chain");
  }
  CHECK(chosen(reduce, 8, kLarge, "^chain").choice.text() != "linear");
  CHECK(chosen(reduce, 8, kLarge, "^chain", true).choice.text() == "linear");
  CHECK(chosen(allreduce, 16, kLarge, "^ring").basis.kind == planner::Basis::Kind::cost);
  // A rule for larger blocks is a rule for the next best.
  CHECK(chosen(allreduce, 3, 8, "^oneshot").choice.text() == "direct");
  // The rules after a switch between devices also serve what the switch cannot reduce.
  planner::Policy switched{.algorithms = "^nvls", .devices = true, .multicast = true};
  const plan::Spec spec{.collective = allreduce, .ranks = 16, .multicast = true};
  CHECK(planner::choose(spec, kLarge, switched).text() == "ring");
}

TEST_CASE("a decision by the rules says which rule it is, and what was passed over") {
  using Kind = planner::Basis::Kind;
  const auto basis = [](int ranks, std::size_t bytes, const planner::Policy& policy) {
    return planner::decision(
               {.collective = Collective::allreduce, .ranks = ranks, .layout = policy.layout},
               bytes, policy)
        .basis;
  };
  const planner::Basis middle = basis(4, 64 << 10, {.algorithms = {}});
  CHECK(middle.kind == Kind::size);
  CHECK(middle.above == 32 << 10); // and not 8 KiB, up to where another rule for small blocks goes
  CHECK(middle.up_to == planner::kUneven);
  CHECK(middle.instead_of.algorithm == nullptr);

  const planner::Basis ordered = basis(8, 8 << 20, {.deterministic = true});
  CHECK(ordered.above == 4 << 20);
  CHECK(ordered.instead_of.text() == "ring");
  CHECK(ordered.objection.starts_with("does not reduce in rank order"));

  planner::Policy nodes{.network_channels = true, .layout = plan::parseLayout("4x2")};
  CHECK(basis(8, 16 << 20, nodes).kind == Kind::nodes);
  CHECK(basis(8, 16 << 20, nodes).up_to == 2 << 20);
  nodes.deterministic = true;
  CHECK(basis(8, 16 << 20, nodes).kind == Kind::size);
  CHECK(basis(8, 16 << 20, nodes).instead_of.text() == "hierarchical");
  CHECK(basis(8, 8, {.algorithms = "ring"}).kind == Kind::none);
}

TEST_CASE(
    "a wish whose exclusions leave no algorithm that can serve is ignored, a list is refused") {
  std::string ordered = "^"; // all that deterministic mode can use
  for (const plan::Algorithm* one :
       plan::supporting({.collective = Collective::allreduce, .ranks = 4}))
    if (plan::Facts(*one, {Collective::allreduce, 4}).inRankOrder())
      ordered += (ordered == "^" ? "" : ",") + std::string(one->name);
  const plan::Spec spec{.collective = Collective::allreduce, .ranks = 4};
  CHECK(planner::choose(spec, 8, {"?" + ordered, true}).text() ==
        planner::choose(spec, 8, {"", true}).text());
  CHECK(says(caught([&] {
               planner::choose(spec, 8, {ordered, true});
             }),
             ErrorCode::unsupported, {"RONDO_ALGO", "does not reduce in rank order"}));
}

TEST_CASE(
    "nvls is refused by name with the reason, and never chosen by the rules when it cannot serve") {
  const auto refused = [](plan::Spec spec, bool deterministic) {
    try {
      planner::choose(
          spec, 1 << 20,
          {.algorithms = "nvls", .deterministic = deterministic, .multicast = spec.multicast});
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::unsupported);
      return std::string(error.what());
    }
    return std::string();
  };
  plan::Spec spec{.collective = Collective::allreduce, .ranks = 4};
  CHECK(refused(spec, false).find("nvls needs a switch") != std::string::npos);
  spec.multicast = true;
  CHECK(refused(spec, false).empty());
  CHECK(refused(spec, true).find("nvls does not reduce in rank order") != std::string::npos);
  spec.collective = Collective::allgather;
  CHECK(refused(spec, true).empty()); // it has no sum
  spec.collective = Collective::allreduce;
  spec.multicast = false; // of a type that the switch does not reduce
  CHECK(planner::choose(spec, 1 << 20, {.algorithms = {}, .devices = true, .multicast = true})
            .text() == "direct");
}

TEST_CASE("blocks of different sizes get a plan that serves them, or a reason why not") {
  for (Collective collective : {Collective::reducescatter, Collective::scatter, Collective::gather,
                                Collective::allgather, Collective::alltoall})
    for (int ranks : {1, 2, 3, 5, 8, 9, 33})
      for (int bits = 0; bits < 8; ++bits) {
        const bool deterministic = bits & 1;
        const plan::Spec spec{collective, ranks, ranks - 1, 0};
        const bool ordered = deterministic && reduces(collective);
        const plan::Choice choice = planner::choose(
            spec, planner::kUneven, {"", deterministic, (bits & 2) != 0, (bits & 4) != 0});
        INFO(name(collective) << " of " << ranks << " ranks uses " << choice.text());
        CHECK(plan::Facts(*choice.algorithm, spec).servesUneven());
        CHECK((!ordered || plan::Facts(*choice.algorithm, spec).inRankOrder()));
      }
  try {
    planner::choose({Collective::allgather, 4, 0, 0}, planner::kUneven, {"bruck"});
    FAIL("bruck bundles blocks");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("bruck does not serve blocks of different sizes") !=
          std::string::npos);
  }
}

} // namespace rondo::test
