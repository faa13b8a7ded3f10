// Tests plans that are wrong in one way each: the checker must say what is wrong, and where.
#include "plan/check.h"

#include "plan/builder.h"
#include "plan/facts.h"
#include "plan/registry.h"
#include "rondo/error.h"
#include "subjects.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

using Plans = std::vector<RankPlan>;

/// All ranks send their input to all others and add up, in rank order.
Plans oneShot(int ranks) {
  const Spec spec{.collective = Collective::allreduce, .ranks = ranks};
  Plans plans;
  for (int r = 0; r < ranks; ++r) {
    Builder plan(spec, r);
    auto lane = plan.lane();
    auto first = lane.step();
    first.with(in(0));
    for (int q = 0; q < ranks; ++q) {
      if (q != r) first.send(q);
    }
    auto sum = lane.step();
    for (int q = 0; q < ranks; ++q) q == r ? sum.with(in(0)) : sum.recv(q);
    sum.to(out(0));
    plans.push_back(plan.take());
  }
  return plans;
}

/// Asserts that only this obligation is violated, and that the text contains all words.
void expect(const Plans& plans, Obligation obligation, const std::vector<std::string>& words) {
  const Report report = check(plans);
  CAPTURE(report.text());
  REQUIRE_FALSE(report.ok());
  CHECK(report.violations[0].obligation == obligation);
  CHECK(report.violations[0].text.size() > 0);
  for (const auto& word : words) {
    CAPTURE(word);
    CHECK(report.text().find(word) != std::string::npos);
  }
}

Step& step(Plans& plans, std::size_t rank, std::size_t index) {
  return plans[rank].lanes[0].steps[index];
}

} // namespace

TEST_CASE("the plans that the other tests break are right") {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    CHECK(check(oneShot(ranks)).text() == "");
    if (ranks > 1) CHECK(check(threeLaneRing(ranks)).text() == "");
  }
}

TEST_CASE("well_formed: steps, channels and ranks are well-formed") {
  const auto wrong = [](auto change, const std::vector<std::string>& words) {
    Plans plans = oneShot(3);
    change(plans);
    expect(plans, Obligation::well_formed, words);
  };
  wrong([](Plans& p) { step(p, 1, 1).output->chunk = 1; }, {"rank 1 lane 0 step 1", "out[1]"});
  wrong([](Plans& p) { step(p, 1, 1).output->space = Space::input; }, {"step 1 writes in[0]"});
  wrong([](Plans& p) { step(p, 1, 1).output->count = 2; }, {"out[0..1]", "shape"});
  wrong([](Plans& p) { step(p, 2, 0).inputs.clear(); }, {"rank 2 lane 0 step 0 has no input"});
  wrong([](Plans& p) { step(p, 2, 0).shape.count = 0; }, {"rank 2 lane 0 step 0 has no chunks"});
  wrong([](Plans& p) { step(p, 0, 0).sends[0] = 9; }, {"rank 0 lane 0 step 0", "channel number 9"});
  wrong([](Plans& p) { step(p, 0, 0).sends[1] = step(p, 0, 0).sends[0]; }, {"twice"});
  wrong([](Plans& p) { std::swap(step(p, 0, 0).sends[0], step(p, 0, 1).inputs[1].channel); },
        {"has the opposite direction"});
  wrong([](Plans& p) { step(p, 0, 1).after.push_back({3, 0}); }, {"waits for lane 3 step 0"});
  wrong([](Plans& p) { p[0].channels[0].index = 1; }, {"channel 0->1", "only one of its ranks"});
  wrong([](Plans& p) { p[0].channels[0].src = 2; }, {"channel 2->1", "cannot be its own"});
  wrong([](Plans& p) { p[0].channels[1] = p[0].channels[0]; }, {"channel 0->1 twice"});
  wrong([](Plans& p) { p[0].channels.push_back({0, 1, 7}); }, {"channel 0->1#7", "no step uses"});
  wrong([](Plans& p) { p[1].rank = 0; }, {"plan 1 has the rank number 0"});
  wrong([](Plans& p) { p[1].spec.root = 1; }, {"rank 1 has another spec"});
  wrong([](Plans& p) { p[1].chunks_per_block = 2; }, {"rank 1 cuts blocks into 2"});
  wrong([](Plans& p) { p[2].message_chunks = 2; }, {"rank 2 has messages of up to 2"});
  wrong([](Plans& p) { p.pop_back(); }, {"2 plans for 3 ranks"});
  wrong(
      [](Plans& p) {
        auto& lanes = p[0].lanes;
        lanes.push_back({{step(p, 0, 0)}});
      },
      {"rank 0 lane 1 step 0", "which lane 0 uses too"});
}

TEST_CASE("matching: the i-th send and receive of a channel agree") {
  Plans more = oneShot(2);
  more[0].lanes[0].steps.insert(more[0].lanes[0].steps.begin(), step(more, 0, 0));
  expect(more, Obligation::matching, {"channel 0->1", "rank 0 sends 2", "rank 1 receives 1"});

  // Two chunks, sent in one order and received in the other.
  const Spec spec{.collective = Collective::broadcast, .ranks = 2};
  Builder root(spec, 0, 2), leaf(spec, 1, 2);
  auto sender = root.lane(), receiver = leaf.lane();
  for (const int c : {0, 1}) sender.copy(in(c), out(c)).send(1);
  for (const int c : {1, 0}) receiver.recv(0, out(c));
  expect({root.take(), leaf.take()}, Obligation::matching,
         {"rank 0 lane 0 step 0", "message 0 of channel 0->1", "rank 1 lane 0 step 0", "chunk 1"});
}

TEST_CASE("deadlock: no cycle of waits, at each depth") {
  // Both ranks receive before they send: a deadlock at any depth.
  Plans plans = oneShot(2);
  for (auto& plan : plans) std::swap(plan.lanes[0].steps[0], plan.lanes[0].steps[1]);
  expect(plans, Obligation::deadlock,
         {"depth 1", "rank 0 lane 0 step 0", "rank 1 lane 0", "message 0 of channel 1->0"});
  CHECK(check(plans).depths.empty());

  // Both send `ahead` chunks before they receive any: right if there are as many slots.
  for (const int ahead : {2, 3, 8}) {
    const Spec spec{.collective = Collective::allgather, .ranks = 2};
    Plans eager;
    for (int r = 0; r < 2; ++r) {
      Builder plan(spec, r, ahead);
      auto lane = plan.lane();
      for (int c = 0; c < ahead; ++c) lane.copy(in(c), out(r * ahead + c)).send(1 - r);
      for (int c = 0; c < ahead; ++c) lane.recv(1 - r, out((1 - r) * ahead + c));
      eager.push_back(plan.take());
    }
    for (int depth = 1; depth <= 9; ++depth) {
      CAPTURE(ahead, depth);
      const Report report = check(eager, {.depths = {depth}});
      CHECK(report.ok() == (depth >= ahead));
      if (!report.ok()) {
        CHECK(report.violations[0].obligation == Obligation::deadlock);
        CHECK(report.text().find("free slot of channel") != std::string::npos);
      }
    }
  }

  // A step that waits for a later one of its lane.
  Plans late = oneShot(2);
  step(late, 0, 0).after.push_back({0, 1});
  expect(late, Obligation::deadlock, {"rank 0 lane 0 step 0", "must run after"});
}

TEST_CASE("race: lanes that share memory are ordered") {
  // Without one of its dependencies the ring's lanes race for scratch or output.
  for (const int ranks : {2, 3, 5}) {
    const Plans right = threeLaneRing(ranks);
    int found = 0;
    for (std::size_t l = 0; l < right[0].lanes.size(); ++l) {
      for (std::size_t s = 0; s < right[0].lanes[l].steps.size(); ++s) {
        if (right[0].lanes[l].steps[s].after.empty()) continue;
        Plans wrong = right;
        wrong[0].lanes[l].steps[s].after.clear();
        CAPTURE(ranks, l, s);
        expect(wrong, Obligation::race,
               {"rank 0 lane " + std::to_string(l) + " step " + std::to_string(s), "while"});
        ++found;
      }
    }
    CHECK(found == 3 * (ranks - 1) - 1);
  }

  // A step that overwrites a part of what it reads.
  const Spec spec{.collective = Collective::broadcast, .ranks = 1};
  Builder builder(spec, 0, 1);
  auto lane = builder.lane();
  lane.copy(in(0), scratch(0));
  lane.copy(in(0), scratch(1));
  lane.copy(scratch(0, 2), scratch(1, 2));
  lane.copy(scratch(2), out(0));
  expect({builder.take()}, Obligation::race, {"rank 0 lane 0 step 2", "over a part of"});
}

TEST_CASE("data_flow: every output has each contribution once, and nothing undefined is read") {
  Plans lacks = oneShot(3);
  step(lacks, 1, 1).inputs.erase(step(lacks, 1, 1).inputs.begin() + 1);
  expect(lacks, Obligation::data_flow, {"rank 1: out[0]", "lacks rank 1's chunk 0"});

  Plans twice = oneShot(3);
  step(twice, 1, 1).inputs.push_back(step(twice, 1, 1).inputs[1]);
  expect(twice, Obligation::data_flow, {"rank 1: out[0]", "has rank 1's chunk 0 too much"});

  Plans unwritten = oneShot(3);
  step(unwritten, 2, 1).output = scratch(0);
  unwritten[2].scratch_chunks = 1;
  expect(unwritten, Obligation::data_flow, {"rank 2: out[0] is never written"});

  Plans undefined = oneShot(3);
  undefined[0].scratch_chunks = 1;
  step(undefined, 0, 0).inputs[0].piece = scratch(0);
  expect(undefined, Obligation::data_flow, {"rank 0 lane 0 step 0 reads scratch[0]"});

  // Right out of place; in place it overwrites the input before it was sent.
  const Spec spec{.collective = Collective::allreduce, .ranks = 2};
  Plans in_place;
  for (int r = 0; r < 2; ++r) {
    Builder plan(spec, r, 1);
    auto lane = plan.lane();
    if (r == 0) {
      lane.recv(1, out(0));
      lane.send(in(0), 1);
      lane.step().recv(1).to(out(0));
    } else {
      lane.send(in(0), 0);
      lane.step().recv(0).with(in(0)).to(out(0)).send(0);
    }
    in_place.push_back(plan.take());
  }
  expect(in_place, Obligation::data_flow,
         {"rank 0 lane 0 step 1 reads in[0]", "overwritten", "in place"});
}

TEST_CASE("data_flow, barrier: no rank leaves before all have entered") {
  const Spec spec{.collective = Collective::barrier, .ranks = 3};
  Plans plans; // each rank receives only from the left
  for (int r = 0; r < 3; ++r) {
    Builder plan(spec, r);
    auto lane = plan.lane();
    lane.send(in(0), (r + 1) % 3);
    lane.recv((r + 2) % 3, out(0));
    plans.push_back(plan.take());
  }
  expect(plans, Obligation::data_flow, {"rank 0 may leave the barrier before rank 1 has entered"});
}

TEST_CASE("data_flow: the order of reduction is recorded") {
  for (const int ranks : {2, 3, 4, 8}) {
    const auto order = [](const Plans& plans) { return check(plans).reduction; };
    Plans plans = oneShot(ranks);
    CHECK(order(plans).rank_order);
    CHECK(order(plans).agrees);

    // Another order of the operands, on one rank: right, but not in rank order. Ranks still agree
    // on a sum of two, since a + b = b + a.
    std::swap(step(plans, 0, 1).inputs[0], step(plans, 0, 1).inputs[1]);
    CHECK(check(plans).ok());
    CHECK_FALSE(order(plans).rank_order);
    CHECK(order(plans).agrees);
    if (ranks > 2) {
      std::swap(step(plans, 0, 1).inputs[1], step(plans, 0, 1).inputs[2]);
      CHECK_FALSE(order(plans).agrees);
    }
    CHECK_FALSE(order(threeLaneRing(ranks)).rank_order);
    const Spec spec{Collective::allreduce, ranks, 0, 0};
    CHECK(Facts(*findAlgorithm("oneshot"), spec).inRankOrder());
    // With two ranks the ring adds only once, in either order.
    if (ranks > 2) CHECK_FALSE(Facts(*findAlgorithm("ring"), spec).inRankOrder());
  }
  CHECK(check(oneShot(3)).reduction.example == "0 + 1 + 2");
  CHECK(check(threeLaneRing(4)).reduction.example == "((0 + 1) + 2) + 3");
}

TEST_CASE("closed_form: the closed form must equal the counts") {
  const auto withForm = [](ClosedForm form) {
    return check(oneShot(4), {.closed_form = form}).text();
  };
  CHECK(withForm({1, 12, 3}) == "");
  CHECK(withForm({2, 12, 3}).find("rounds: the plan has 1, the closed form says 2") !=
        std::string::npos);
  CHECK(withForm({1, 11, 3}).find("blocks sent by all ranks") != std::string::npos);
  CHECK(withForm({1, 12, 4}).find("blocks sent by the rank that sends most") != std::string::npos);
}

TEST_CASE("plans that cannot be checked are a typed error") {
  const auto code = [](auto call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::system;
  };
  CHECK(code([] { check(Plans{}); }) == ErrorCode::invalid_argument);
  CHECK(code([] { check(oneShot(2), {.depths = {0}}); }) == ErrorCode::invalid_argument);
  CHECK(code([] { count(Plans{}); }) == ErrorCode::invalid_argument);
  CHECK(code([] {
          Plans broken = oneShot(2);
          step(broken, 0, 0).sends[0] = 9;
          count(broken);
        }) == ErrorCode::invalid_argument);
  const Algorithm& ring = *findAlgorithm("ring");
  for (const Spec& spec :
       {Spec{Collective::allreduce, 0, 0, 0}, Spec{Collective::allreduce, 2, 2, 0},
        Spec{Collective::gather, 2, 0, 0}}) {
    CHECK(code([&] { buildAll(ring, spec); }) == ErrorCode::invalid_argument);
  }
}

TEST_CASE("violations stop at the limit") {
  Plans plans = oneShot(8);
  for (auto& plan : plans) plan.lanes[0].steps[1].output->chunk = 5;
  for (const std::size_t limit : {1, 3, 20}) {
    CHECK(check(plans, {.max_violations = limit}).violations.size() <= limit);
  }
}

} // namespace rondo::test
