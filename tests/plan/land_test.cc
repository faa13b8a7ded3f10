// Tests which messages the sender may write directly to their final place.
#include "plan/land.h"

#include <string>

#include "plan/builder.h"
#include "plan/check.h"
#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

/// For each rank a letter per step: L if all that it sends lands, t if its message announces a
/// place, d if its message has already been written, - otherwise.
std::string landingOf(const std::vector<RankPlan>& plans) {
  const Landing landing(plans);
  std::string text;
  for (const RankPlan& plan : plans) {
    if (plan.rank > 0) text += ' ';
    for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane)
      for (std::uint32_t s = 0; s < plan.lanes[lane].steps.size(); ++s)
        text += !landing.addressInputs(plan.rank, lane, s).empty() ? 'L'
                : landing.announces(plan.rank, lane, s)            ? 't'
                : landing.writtenBySender(plan.rank, lane, s)      ? 'd'
                                                                   : '-';
  }
  return text;
}

std::string landingOf(std::string_view name, Collective collective, int ranks) {
  return landingOf(
      buildAll(*findAlgorithm(name), {.collective = collective, .ranks = ranks, .root = 0}));
}

constexpr auto kNothing = [](auto&&...) {};

/// Rank 0 asks rank 1, which answers with the sum. `between` adds steps of rank 0 in between,
/// `before` adds steps before, and `other` adds steps in other lanes.
template <class Between, class Other, class Before = decltype(kNothing)>
std::vector<RankPlan> asking(const Between& between, const Other& other,
                             const Before& before = kNothing) {
  const Spec spec{.collective = Collective::allreduce, .ranks = 2};
  Builder first(spec, 0, 2), second(spec, 1, 2);
  auto asks = first.lane(), answers = second.lane();
  before(asks);
  asks.send(in(0), 1);
  answers.step().recv(0).with(in(0)).to(out(0)).send(0);
  between(asks);
  asks.recv(1, out(0));
  other(first, second);
  return {first.take(), second.take()};
}

} // namespace

TEST_CASE("direct: owners write all results directly into the other ranks' outputs", "[land]") {
  CHECK(landingOf("direct", Collective::allreduce, 2) == "tLd tLd");
  CHECK(landingOf("direct", Collective::allreduce, 4) == "tttLddd tttLddd tttLddd tttLddd");
  // The owners receive no message before, so no place is announced.
  CHECK(landingOf("direct", Collective::allgather, 3) == "--- --- ---");
  CHECK(landingOf("direct", Collective::reducescatter, 3) == "--- --- ---");
  CHECK(landingOf("parameter_server", Collective::allreduce, 3).find('L') == 0);
}

TEST_CASE("no message lands at a place that the receiver uses in between", "[land]") {
  CHECK(landingOf(asking(kNothing, kNothing)) == "td L");
  // The receiver reads the place in place, or writes there.
  CHECK(landingOf(asking([](auto& lane) { lane.copy(in(0), scratch(0)); }, kNothing)) == "--- -");
  CHECK(landingOf(asking([](auto& lane) { lane.copy(scratch(0), out(0)); }, kNothing)) == "--- -");
  CHECK(landingOf(asking([](auto& lane) { lane.copy(in(1), out(1)); }, kNothing)) == "t-d L");
  // In another lane, at any time.
  CHECK(landingOf(asking(kNothing, [](auto& first, auto&) {
          first.lane().copy(in(0), scratch(0));
        })) == "--- -");
}

TEST_CASE("no message lands where a third step may still read a loan", "[land]") {
  // Rank 1 gets the loan a second time, and reads it in a lane that nothing delays.
  const auto twice = [](auto& first, auto& second) {
    first.lane().send(in(0), 1, 1);
    second.lane().recv(0, scratch(0), 1);
  };
  CHECK(landingOf(asking(kNothing, twice)) == "--- --");
  // Rank 1 got the loan before, and may not have read it yet.
  CHECK(landingOf(asking(
            kNothing, [](auto&, auto& second) { second.lane().recv(0, scratch(0), 1); },
            [](auto& lane) { lane.send(in(0), 1, 1); })) == "--- --");
}

TEST_CASE("each message that lands is announced exactly once, in plans of the registry", "[land]") {
  for (const Algorithm* algorithm : algorithms())
    for (const Collective collective : kCollectives)
      for (const int ranks : {1, 2, 3, 5, 8}) {
        const Spec spec{.collective = collective, .ranks = ranks};
        if (collective == Collective::sendrecv || !algorithm->supports(spec)) continue;
        const std::vector<RankPlan> plans = buildAll(*algorithm, spec);
        const Landing landing(plans);
        INFO(algorithm->name << ' ' << name(collective) << ", " << ranks << " ranks");
        for (const RankPlan& plan : plans)
          for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane)
            for (std::uint32_t s = 0; s < plan.lanes[lane].steps.size(); ++s) {
              const Step& step = plan.lanes[lane].steps[s];
              const auto& told = landing.addressInputs(plan.rank, lane, s);
              CHECK((told.empty() || told.size() == step.sends.size()));
              for (const std::uint32_t input : told) CHECK(!step.inputs.at(input).local());
              if (const auto& tells = landing.announces(plan.rank, lane, s)) {
                CHECK(step.sends.size() == 1);
                CHECK(landing.writtenBySender(plan.rank, tells->lane, tells->step));
              }
            }
      }
}

} // namespace rondo::test
