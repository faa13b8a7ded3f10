// Tests which messages the sender may put, that is, write directly to their final place.
#include "plan/put.h"

#include <string>

#include "plan/builder.h"
#include "plan/check.h"
#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

/// For each rank a letter per step: P if all that it sends is put, t if its message announces a
/// place, d if its message has already been written, - otherwise.
std::string putsOf(const std::vector<RankPlan>& plans) {
  const Puts puts(plans);
  std::string text;
  for (const RankPlan& plan : plans) {
    if (plan.rank > 0) text += ' ';
    for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane)
      for (std::uint32_t s = 0; s < plan.lanes[lane].steps.size(); ++s)
        text += !puts.addressInputs(plan.rank, lane, s).empty() ? 'P'
                : puts.announces(plan.rank, lane, s)            ? 't'
                : puts.writtenBySender(plan.rank, lane, s)      ? 'd'
                                                                : '-';
  }
  return text;
}

std::string putsOf(std::string_view name, Collective collective, int ranks) {
  return putsOf(
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

TEST_CASE("direct: owners write all results directly into the other ranks' outputs", "[put]") {
  CHECK(putsOf("direct", Collective::allreduce, 2) == "tPd tPd");
  CHECK(putsOf("direct", Collective::allreduce, 4) == "tttPddd tttPddd tttPddd tttPddd");
  // The owners receive no message before, so no place is announced.
  CHECK(putsOf("direct", Collective::allgather, 3) == "--- --- ---");
  CHECK(putsOf("direct", Collective::reducescatter, 3) == "--- --- ---");
  CHECK(putsOf("parameter_server", Collective::allreduce, 3).find('P') == 0);
}

TEST_CASE("no message is put at a place that the receiver uses in between", "[put]") {
  CHECK(putsOf(asking(kNothing, kNothing)) == "td P");
  // The receiver reads the place in place, or writes there.
  CHECK(putsOf(asking([](auto& lane) { lane.copy(in(0), scratch(0)); }, kNothing)) == "--- -");
  CHECK(putsOf(asking([](auto& lane) { lane.copy(scratch(0), out(0)); }, kNothing)) == "--- -");
  CHECK(putsOf(asking([](auto& lane) { lane.copy(in(1), out(1)); }, kNothing)) == "t-d P");
  // In another lane, at any time.
  CHECK(putsOf(asking(kNothing, [](auto& first, auto&) {
          first.lane().copy(in(0), scratch(0));
        })) == "--- -");
}

TEST_CASE("no message is put where a third step may still read a loan", "[put]") {
  // Rank 1 gets the loan a second time, and reads it in a lane that nothing delays.
  const auto twice = [](auto& first, auto& second) {
    first.lane().send(in(0), 1, 1);
    second.lane().recv(0, scratch(0), 1);
  };
  CHECK(putsOf(asking(kNothing, twice)) == "--- --");
  // Rank 1 got the loan before, and may not have read it yet.
  CHECK(putsOf(asking(
            kNothing, [](auto&, auto& second) { second.lane().recv(0, scratch(0), 1); },
            [](auto& lane) { lane.send(in(0), 1, 1); })) == "--- --");
}

TEST_CASE("each message that is put is announced exactly once, in plans of the registry", "[put]") {
  for (const Algorithm* algorithm : algorithms())
    for (const Collective collective : kCollectives)
      for (const int ranks : {1, 2, 3, 5, 8}) {
        const Spec spec{.collective = collective, .ranks = ranks};
        if (collective == Collective::sendrecv || !algorithm->supports(spec)) continue;
        const std::vector<RankPlan> plans = buildAll(*algorithm, spec);
        const Puts puts(plans);
        INFO(algorithm->name << ' ' << name(collective) << ", " << ranks << " ranks");
        for (const RankPlan& plan : plans)
          for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane)
            for (std::uint32_t s = 0; s < plan.lanes[lane].steps.size(); ++s) {
              const Step& step = plan.lanes[lane].steps[s];
              const auto& told = puts.addressInputs(plan.rank, lane, s);
              CHECK((told.empty() || told.size() == step.sends.size()));
              for (const std::uint32_t input : told) CHECK(!step.inputs.at(input).local());
              if (const auto& tells = puts.announces(plan.rank, lane, s)) {
                CHECK(step.sends.size() == 1);
                CHECK(puts.writtenBySender(plan.rank, tells->lane, tells->step));
              }
            }
      }
}

} // namespace rondo::test
