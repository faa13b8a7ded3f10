// Tests which messages may stay in the sender's memory.
#include <string>

#include "plan/builder.h"
#include "plan/check.h"
#include "plan/lend.h"
#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

std::vector<RankPlan> plansOf(std::string_view name, const Spec& spec) {
  std::vector<RankPlan> plans;
  for (int rank = 0; rank < spec.ranks; ++rank)
    plans.push_back(findAlgorithm(name)->build(spec, rank));
  return plans;
}

/// For each rank a digit per sending step: 1 if it may lend.
std::string lendsOf(const std::vector<RankPlan>& plans, bool scaled = false, bool uneven = false) {
  const Lending lending(plans, scaled, uneven);
  std::string text;
  for (const RankPlan& plan : plans) {
    if (plan.rank > 0) text += ' ';
    for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane)
      for (std::uint32_t s = 0; s < plan.lanes[lane].steps.size(); ++s)
        if (!plan.lanes[lane].steps[s].sends.empty())
          text += lending.may(plan.rank, lane, s) ? '1' : '0';
  }
  CHECK(lending.always() == (text.find('0') == std::string::npos));
  return text;
}

} // namespace

TEST_CASE("direct lends all: in place an owner answers only when it has read", "[lend]") {
  for (const Collective collective : {Collective::allreduce, Collective::reducescatter,
                                      Collective::allgather, Collective::alltoall})
    for (const int ranks : {2, 3, 8}) {
      const std::string text = lendsOf(plansOf("direct", {collective, ranks, 0, 0}));
      CHECK(text.find('0') == std::string::npos);
    }
}

TEST_CASE("inputs that are multiplied when read are not lent, results are", "[lend]") {
  CHECK(lendsOf(plansOf("direct", {Collective::allreduce, 3, 0, 0}), true) == "001 001 001");
}

TEST_CASE("partial results without memory are not lent, finished chunks are", "[lend]") {
  // Each rank sends its own chunk, passes two sums on, finishes one chunk, and passes two on.
  CHECK(lendsOf(plansOf("ring", {Collective::allreduce, 4, 0, 0})) ==
        "100111 100111 100111 100111");
}

TEST_CASE("pieces that cross blocks are not lent: they are in several places", "[lend]") {
  const std::string text = lendsOf(plansOf("bruck", {Collective::allgather, 4, 0, 0}));
  CHECK(text.find('0') != std::string::npos);
}

TEST_CASE("memory that is written again is lent only if its readers come first", "[lend]") {
  // In place, rank 0 overwrites what rank 1 reads: after an answer, or without one.
  const auto made = [](bool answered) {
    const Spec spec{Collective::allreduce, 2, 0, 0};
    Builder first(spec, 0), second(spec, 1);
    auto lane = first.lane();
    lane.send(in(0), 1);
    if (answered) {
      lane.recv(1, out(0));
    } else {
      auto other = first.lane();
      other.recv(1, out(0));
    }
    auto both = second.lane();
    if (answered) {
      both.step().recv(0).with(in(0)).to(out(0)).send(0);
    } else {
      both.send(in(0), 0);
      both.recv(0, out(0));
    }
    return std::vector<RankPlan>{first.take(), second.take()};
  };
  CHECK(lendsOf(made(true)) == "1 1");
  CHECK(lendsOf(made(false)) == "0 0");
  // A message that may be left out orders nothing.
  CHECK(lendsOf(made(true), false, true) == "0 1");
}

TEST_CASE("no plan of the registry lends scratch or several pieces", "[lend]") {
  for (const int ranks : {2, 3, 4, 5, 8})
    for (const Algorithm* algorithm : algorithms())
      for (const Collective collective : kCollectives) {
        const Spec spec{collective, ranks, 0, 0};
        if (collective == Collective::sendrecv || !algorithm->supports(spec)) continue;
        const std::vector<RankPlan> plans = plansOf(algorithm->name, spec);
        const Lending lending(plans, false, false);
        for (const RankPlan& plan : plans)
          for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane)
            for (std::uint32_t s = 0; s < plan.lanes[lane].steps.size(); ++s) {
              if (!lending.may(plan.rank, lane, s)) continue;
              const Step& step = plan.lanes[lane].steps[s];
              const Piece& piece = step.output ? *step.output : step.inputs.at(0).piece;
              INFO(algorithm->name << ' ' << name(collective) << ", rank " << plan.rank << " lane "
                                   << lane << " step " << s);
              CHECK((step.output || step.inputs.size() == 1));
              CHECK(piece.space != Space::scratch);
              CHECK(piece.chunk / plan.chunks_per_block ==
                    (piece.chunk + piece.count - 1) / plan.chunks_per_block);
            }
      }
}

} // namespace rondo::test
