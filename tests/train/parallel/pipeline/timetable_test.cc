// Tests timetables of pipelines: all in a grid pass the checker and take the time of the formula;
// broken ones are refused with the name of the rule.
#include <algorithm>
#include <cmath>
#include <map>

#include "machine.h"
#include "rondo/error.h"
#include "support/test.h"
#include "train/parallel/pipeline/check.h"
#include "train/parallel/pipeline/diagram.h"
#include "train/parallel/pipeline/simulate.h"
#include "train/random.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr int kStages = 8, kMicroBatches = 16, kLaps = 3;

/// Calls visit(kind, shape) for every shape up to these sizes that the kind supports.
template <class Visit>
void eachShape(int stages, int micro_batches, const Visit& visit) {
  for (const PipelineKind* kind : pipelineKinds())
    for (int p = 1; p <= stages; ++p)
      for (int m = 1; m <= micro_batches; ++m)
        for (int laps = 1; laps <= kLaps; ++laps)
          for (const bool recompute : {false, true}) {
            if (laps > 1 && (!kind->laps || p == 1 || m % p != 0)) continue;
            visit(*kind, PipelineShape{p, m, laps, recompute});
          }
}

std::string text(const PipelineKind& kind, const PipelineShape& shape) {
  return std::string(kind.name) + ", " + std::to_string(shape.stages) + " stages, " +
         std::to_string(shape.micro_batches) + " micro-batches, " + std::to_string(shape.laps) +
         " laps" + (shape.recompute ? ", recomputation" : "");
}

std::string found(const Timetable& timetable) {
  const auto fault = check(timetable);
  return fault ? std::string(name(fault->rule)) + ": " + fault->text : "";
}

Timetable made(const char* kind, PipelineShape shape) {
  return makeTimetable(pipelineKind(kind), shape);
}

using List = std::vector<Operation>;

List::iterator at(List& list, const Operation& operation) {
  const auto place = std::find(list.begin(), list.end(), operation);
  REQUIRE((place != list.end()));
  return place;
}

/// Makes one random change to one list.
void mutate(Timetable& timetable, Random& random) {
  const auto below = [&](std::size_t bound) {
    return static_cast<std::ptrdiff_t>(random.below(static_cast<std::uint32_t>(bound)));
  };
  List& list = timetable.ranks[static_cast<std::size_t>(below(timetable.ranks.size()))];
  if (list.empty()) return;
  const auto here = list.begin() + below(list.size()), there = list.begin() + below(list.size());
  switch (below(5)) {
    case 0: std::iter_swap(here, there); break;
    case 1: list.erase(here); break;
    case 2: list.insert(there, Operation(*here)); break;
    case 3: here->micro += below(2) == 0 ? 1 : -1; break;
    default: std::rotate(std::min(here, there), std::max(here, there), std::max(here, there) + 1);
  }
}

} // namespace

TEST_CASE("every timetable of a grid of shapes passes the checker and runs on the test machine") {
  eachShape(kStages, kMicroBatches, [](const PipelineKind& kind, const PipelineShape& shape) {
    INFO(text(kind, shape));
    const Timetable timetable = makeTimetable(kind, shape);
    REQUIRE(found(timetable) == "");
    REQUIRE(Machine(timetable).runs());
    REQUIRE(found(evaluationTimetable(shape)) == "");
    for (int rank = 0; rank < shape.stages; ++rank)
      REQUIRE(mostInFlight(timetable, rank) == timetable.in_flight[static_cast<std::size_t>(rank)]);
  });
}

TEST_CASE(
    "with 1f1b a rank holds at most as many micro-batches as there are stages from it to the end") {
  const PipelineShape shape{.stages = 4, .micro_batches = 16};
  REQUIRE(made("1f1b", shape).in_flight == std::vector<int>{4, 3, 2, 1});
  REQUIRE(made("gpipe", shape).in_flight == std::vector<int>{16, 16, 16, 16});
}

TEST_CASE(
    "with equal costs the idle fraction equals the formula, for any ratio of forward to backward") {
  eachShape(kStages, kMicroBatches, [](const PipelineKind& kind, const PipelineShape& shape) {
    if (shape.recompute) return;
    INFO(text(kind, shape));
    const Timetable timetable = makeTimetable(kind, shape);
    for (const double back : {1.0, 2.0}) {
      const SimulatedStep step = simulate(timetable, PassCosts::even(shape, 1, back));
      REQUIRE(std::abs(step.idle() - kind.idle(shape)) < 1e-12);
    }
  });
}

TEST_CASE("the bubble of 1f1b is (p-1)/(m+p-1), and interleaving divides its length by the laps") {
  const PipelineShape shape{.stages = 4, .micro_batches = 16};
  const auto idle = [](const Timetable& timetable) {
    return simulate(timetable, PassCosts::even(timetable.shape, 1, 2)).idle();
  };
  REQUIRE(std::abs(idle(made("1f1b", shape)) - 3.0 / 19) < 1e-12);
  REQUIRE(std::abs(idle(made("naive", shape)) - 3.0 / 4) < 1e-12);
  REQUIRE(std::abs(idle(made("interleaved", {4, 16, 2})) - 3.0 / 35) < 1e-12);
}

TEST_CASE("a slow part makes the other stages wait") {
  const Timetable timetable = made("1f1b", {.stages = 2, .micro_batches = 4});
  const SimulatedStep step = simulate(timetable, {.forward = {1, 3}, .backward = {2, 6}});
  // The second rank works from 1 to 1 + 4 * 9; then the first rank runs its last backward pass.
  REQUIRE(step.makespan == 1 + 36 + 2);
  REQUIRE(std::abs(step.idle() - (1 - (4 * 3 + 4 * 9) / (2.0 * 39))) < 1e-12);
}

TEST_CASE("recomputation does not repeat a part's last pass") {
  const Timetable timetable = made("1f1b", {3, 4, 1, true});
  for (int rank = 0; rank < 3; ++rank) {
    const List& list = timetable.ranks[static_cast<std::size_t>(rank)];
    const auto again = std::count_if(list.begin(), list.end(), [](const Operation& operation) {
      return operation.task == Task::recompute;
    });
    REQUIRE(again == (rank == 2 ? 0 : 4));
  }
}

TEST_CASE("the checker refuses a randomly changed timetable if and only if it does not run") {
  Random random(7);
  int same = 0;
  std::map<TimetableRule, int> refused;
  eachShape(4, 4, [&](const PipelineKind& kind, const PipelineShape& shape) {
    const Timetable right = makeTimetable(kind, shape);
    for (int i = 0; i < 100; ++i) {
      Timetable changed = right;
      for (int changes = 0; changes <= i % 3; ++changes) mutate(changed, random);
      const auto fault = check(changed);
      INFO(text(kind, shape) << ": " << found(changed));
      REQUIRE(Machine(changed).runs() == !fault);
      if (fault) ++refused[fault->rule];
      else ++same; // for example a pass that moved before an unrelated send
    }
  });
  REQUIRE(same > 100);
  for (const TimetableRule rule :
       {TimetableRule::well_formed, TimetableRule::once, TimetableRule::data_flow,
        TimetableRule::matching, TimetableRule::deadlock, TimetableRule::weights})
    CHECK(refused[rule] > 10);
}

TEST_CASE(
    "a breach of each rule is reported with the name of the rule, rank, micro-batch and part") {
  const PipelineShape shape{.stages = 2, .micro_batches = 4};
  const auto broken = [&](const auto& change) {
    Timetable timetable = made("gpipe", shape);
    change(timetable.ranks[0], timetable.ranks[1]);
    return found(timetable);
  };
  CHECK(broken([](List& first, List&) { first[0].part = 1; }) ==
        "well-formed: rank 0: forward of micro-batch 0, part 1 is not on this rank");
  CHECK(broken([](List& first, List&) { first[0].micro = 4; }) ==
        "well-formed: rank 0: forward of micro-batch 4, part 0 does not exist");
  CHECK(broken([](List&, List& last) {
          last.erase(at(last, {Task::backward, 2, 1}));
        }) == "once: rank 1: backward of micro-batch 2, part 1 is missing");
  CHECK(broken([](List& first, List&) {
          first.push_back({Task::forward, 1, 0});
        }) == "once: rank 0: forward of micro-batch 1, part 0 occurs twice");
  CHECK(broken([](List&, List& last) {
          std::iter_swap(at(last, {Task::forward, 3, 1}), at(last, {Task::backward, 3, 1}));
        }) == "once: rank 1: backward of micro-batch 3, part 1 comes before its forward");
  CHECK(
      broken([](List&, List& last) {
        std::iter_swap(at(last, {Task::receive_activation, 1, 1}), at(last, {Task::forward, 1, 1}));
      }) ==
      "data flow: rank 1: forward of micro-batch 1, part 1 comes before its receive activation");
  CHECK(broken([](List& first, List&) {
          for (const Task task : {Task::forward, Task::send_activation})
            std::iter_swap(at(first, {task, 0, 0}), at(first, {task, 1, 0}));
        }) ==
        "matching: rank 1: receive activation of micro-batch 0, part 1 is matched with rank 0: "
        "send activation of micro-batch 1, part 0");
  CHECK(broken([](List& first, List&) {
          const auto gradient = at(first, {Task::receive_gradient, 0, 0});
          std::rotate(at(first, {Task::forward, 2, 0}), gradient, gradient + 1);
        }) ==
        "deadlock: rank 0: receive gradient of micro-batch 0, part 0 waits; rank 1: receive "
        "activation of micro-batch 2, part 1 waits");
  CHECK(broken([](List&, List& last) {
          std::iter_swap(last.end() - 1, at(last, {Task::backward, 3, 1}));
        }).starts_with("data flow: rank 1: send gradient of micro-batch 3, part 1"));
  CHECK(broken([](List& first, List&) {
          std::iter_swap(first.end() - 1, at(first, {Task::backward, 3, 0}));
        }) == "weights: rank 0: backward of micro-batch 3, part 0 comes after the update");
  CHECK(broken([](List& first, List&) { first.pop_back(); }) == "weights: rank 0 updates 0 times");
}

TEST_CASE("too many activations, and activations that are no longer held, are refused") {
  const PipelineShape shape{.stages = 2, .micro_batches = 4};
  Timetable greedy = made("gpipe", shape);
  greedy.in_flight = made("1f1b", shape).in_flight;
  CHECK(found(greedy) == "in flight: rank 0 holds activations of 4 passes, but may hold only 2");
  Timetable forgetful = made("gpipe", {2, 4, 1, true});
  List& list = forgetful.ranks[0];
  list.erase(at(list, {Task::recompute, 2, 0}));
  CHECK(found(forgetful) == "once: rank 0: backward of micro-batch 2, part 0 needs a recompute");
}

TEST_CASE("shapes that a kind does not support are refused") {
  const auto refused = [](const char* kind, const PipelineShape& shape) -> std::string {
    try {
      made(kind, shape);
    } catch (const Error& error) {
      REQUIRE(error.code() == ErrorCode::invalid_argument);
      return error.what();
    }
    return "accepted";
  };
  CHECK(refused("1f1b", {.stages = 0}) == "train: pipeline: 0 stages, must be 1 or more");
  CHECK(refused("gpipe", {.stages = 2, .micro_batches = 0}) ==
        "train: pipeline: 0 micro-batches, must be 1 or more");
  CHECK(refused("interleaved", {.stages = 1, .micro_batches = 4, .laps = 2}) ==
        "train: pipeline: more than one lap needs more than one stage");
  CHECK(refused("interleaved", {.stages = 2, .micro_batches = 5, .laps = 2}) ==
        "train: pipeline: 5 micro-batches on 2 stages with 2 laps: must be a multiple of the "
        "stages");
  // 1f1b always has one lap
  CHECK(refused("1f1b", {.stages = 2, .micro_batches = 5, .laps = 2}) == "accepted");
  CHECK(refused("2f2b", {}) ==
        "train: unknown pipeline \"2f2b\"; valid: naive, gpipe, 1f1b, interleaved");
}

TEST_CASE("a diagram has a row for each stage and a column for each unit of time") {
  CHECK(diagram(made("1f1b", {.stages = 2, .micro_batches = 3})) ==
        "stage 0 | F0 F1 .  .  B0--- F2 B1--- .  B2---\n"
        "stage 1 | .  F0 B0--- F1 B1--- F2 B2--- .  .\n");
  CHECK(diagram(made("gpipe", {2, 2, 1, true})) ==
        "stage 0 | F0 F1 R0 .  .  .  B0--- R1 B1---\n"
        "stage 1 | .  F0 F1 R0 B0--- R1 B1--- .  .\n");
  CHECK(diagram(made("interleaved", {2, 2, 2})).starts_with("stage 0 | F0a F1a F0b F1b"));
}

} // namespace rondo::test
