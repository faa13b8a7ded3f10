// plan(), predict() and simulate(): what `rondo plan` and `rondo simulate` know, as data.
#include "compat/python/planning.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compat/python/errors.h"
#include "compat/python/wait.h"
#include "model/profile_file.h"
#include "model/simulate.h"
#include "plan/registry.h"
#include "planner/choose.h"

namespace rondo::compat::python {

namespace {

using Text = std::string;

/// The arguments of rondo.plan(), predict() and simulate(), converted.
struct Question {
  plan::Spec spec;
  double bytes = 0; ///< of one block of the call

  std::size_t blockBytes() const { return static_cast<std::size_t>(bytes); }
};

Question questionOf(const Text& collective, int ranks, double bytes, int root, const Text& layout) {
  const Collective one = parseCollective(collective);
  if (ranks < 1)
    throw Error(ErrorCode::invalid_argument, "the number of ranks is " + std::to_string(ranks));
  if (root < 0 || root >= ranks)
    throw Error(ErrorCode::invalid_argument, "root is " + std::to_string(root) +
                                                 ", but the ranks are 0 to " +
                                                 std::to_string(ranks - 1));
  if (!(bytes >= 0)) throw Error(ErrorCode::invalid_argument, "the number of bytes is negative");
  return {.spec = {.collective = one,
                   .ranks = ranks,
                   .root = root,
                   .layout = plan::parseLayout(layout, ranks)},
          .bytes = traits(one).perRank() ? bytes / ranks : bytes};
}

/// The algorithm of this name; without one, the one that a communicator would use.
plan::Choice choiceOf(const Question& question, const std::optional<Text>& algorithm) {
  if (algorithm) {
    const plan::Choice choice = plan::parseChoice(*algorithm);
    if (!choice.algorithm->supports(choice.applied(question.spec)))
      throw Error(ErrorCode::invalid_argument, *algorithm + " does not support " +
                                                   Text(name(question.spec.collective)) + " on " +
                                                   std::to_string(question.spec.ranks) + " ranks");
    return choice;
  }
  return planner::choose(question.spec, question.blockBytes(), {.layout = question.spec.layout});
}

/// Where ranks are. A value: the profile is part of it.
struct Where {
  model::Profile profile;
  model::Network network;
};

Where whereOf(const Text& link, const Text& between, int processors,
              const std::optional<Text>& profile,
              const std::optional<std::pair<double, double>>& ideal) {
  if (ideal && (ideal->first < 0 || ideal->second <= 0))
    throw Error(ErrorCode::invalid_argument,
                "ideal is (seconds per message, bytes per second), not negative and above 0");
  if (processors < 0) throw Error(ErrorCode::invalid_argument, "processors is negative");
  return {.profile = ideal     ? model::idealProfile(ideal->first, 1 / ideal->second)
                     : profile ? model::readProfile(*profile)
                               : model::defaultProfile(),
          .network = {.inside = model::parseLinkClass(link),
                      .between = model::parseLinkClass(between),
                      .processors = processors}};
}

model::Outcome outcomeOf(const Question& question, const plan::Choice& choice, const Where& where,
                         bool in_place = false, const model::Observer& observer = {}) {
  model::Network network = where.network;
  network.profile = &where.profile;
  return model::simulate(*choice.algorithm, choice.applied(question.spec),
                         {.bytes = question.bytes, .in_place = in_place}, network, observer);
}

nb::dict dictOf(const plan::Choice& choice, const model::Outcome& outcome) {
  nb::dict terms, result;
  terms["latency"] = outcome.terms.latency;
  terms["bytes"] = outcome.terms.bytes;
  terms["reduction"] = outcome.terms.reduction;
  terms["contention"] = outcome.terms.contention;
  result["algorithm"] = choice.text();
  result["seconds"] = outcome.stuck.empty() ? nb::object(nb::float_(outcome.seconds)) : nb::none();
  result["terms"] = terms;
  result["stuck"] = outcome.stuck;
  result["tiles"] = outcome.tiles;
  result["messages"] = outcome.messages;
  result["sent_by_all"] = outcome.total_sent;
  result["sent_by_busiest"] = outcome.max_sent;
  return result;
}

// predict() ---------------------------------------------------------------------------------------

struct Candidate {
  plan::Choice choice;
  model::Outcome outcome;
};

std::vector<Candidate> candidatesOf(const Question& question, const plan::Choice& chosen,
                                    const Where& where) {
  std::vector<Candidate> all;
  const auto add = [&](const plan::Choice& choice) {
    try {
      all.push_back({choice, outcomeOf(question, choice, where)});
    } catch (const model::TooLarge&) { // it has no prediction
    }
  };
  bool known = false;
  for (const plan::Algorithm* algorithm : plan::supporting(question.spec)) {
    const plan::Choice choice{algorithm};
    known = known || choice == chosen;
    add(choice);
  }
  if (!known) add(chosen);
  std::ranges::stable_sort(all, {}, [](const Candidate& one) { return one.outcome.seconds; });
  return all;
}

nb::list predict(const Text& collective, int ranks, double bytes, int root, const Text& layout,
                 const Text& link, const Text& between, int processors,
                 const std::optional<Text>& profile,
                 const std::optional<std::pair<double, double>>& ideal) {
  plan::Choice chosen;
  const auto all = raising("predict", [&] {
    const Unlocked unlocked;
    const Question question = questionOf(collective, ranks, bytes, root, layout);
    chosen = choiceOf(question, std::nullopt);
    return candidatesOf(question, chosen, whereOf(link, between, processors, profile, ideal));
  });
  nb::list result;
  for (const Candidate& one : all) {
    nb::dict row = dictOf(one.choice, one.outcome);
    row["chosen"] = one.choice == chosen;
    result.append(row);
  }
  return result;
}

// simulate() --------------------------------------------------------------------------------------

using Delays = std::map<int, double>;
using Links = std::map<std::pair<int, int>, double>;

model::Conditions conditionsOf(const Delays& late, const Delays& slow, const Links& slow_links) {
  model::Conditions conditions;
  for (const auto& one : late)
    conditions.stragglers.push_back({.rank = one.first, .delay = one.second});
  for (const auto& one : slow)
    conditions.stragglers.push_back({.rank = one.first, .factor = one.second});
  for (const auto& one : slow_links)
    conditions.slow_links.push_back(
        {.src = one.first.first, .dst = one.first.second, .factor = one.second});
  return conditions;
}

nb::dict simulate(const Text& collective, int ranks, double bytes,
                  const std::optional<Text>& algorithm, int root, const Text& layout,
                  const Text& link, const Text& between, int processors,
                  const std::optional<Text>& profile,
                  const std::optional<std::pair<double, double>>& ideal, const Delays& late,
                  const Delays& slow, const Links& slow_links, bool in_place, bool trace) {
  plan::Choice choice;
  std::vector<model::Span> spans;
  const model::Outcome outcome = raising("simulate", [&] {
    const Unlocked unlocked;
    const Question question = questionOf(collective, ranks, bytes, root, layout);
    choice = choiceOf(question, algorithm);
    Where where = whereOf(link, between, processors, profile, ideal);
    where.network.conditions = conditionsOf(late, slow, slow_links);
    model::Observer observer;
    if (trace) observer = [&](const model::Span& span) { spans.push_back(span); };
    return outcomeOf(question, choice, where, in_place, observer);
  });
  nb::dict result = dictOf(choice, outcome);
  if (!trace) return result;
  nb::list steps;
  for (const model::Span& span : spans) {
    nb::dict step;
    step["rank"] = span.rank;
    step["lane"] = span.lane;
    step["step"] = span.step;
    step["tile"] = span.tile;
    step["begin"] = span.begin;
    step["end"] = span.end;
    steps.append(step);
  }
  result["steps"] = steps;
  return result;
}

// plan() ------------------------------------------------------------------------------------------

nb::object pieceOf(const plan::Piece& piece) {
  constexpr const char* kSpaces[] = {"input", "output", "scratch", "window"};
  return nb::make_tuple(kSpaces[static_cast<std::size_t>(piece.space)], piece.chunk, piece.count);
}

nb::object channelOf(const plan::RankPlan& plan, int channel) {
  const plan::Channel& one = plan.channels[static_cast<std::size_t>(channel)];
  return nb::make_tuple(one.src, one.dst, one.index);
}

nb::dict stepOf(const plan::RankPlan& plan, const plan::Step& step) {
  nb::list inputs, sends, after;
  for (const plan::Operand& operand : step.inputs)
    inputs.append(operand.local() ? pieceOf(operand.piece) : channelOf(plan, operand.channel));
  for (const int channel : step.sends) sends.append(channelOf(plan, channel));
  for (const plan::Dependency& one : step.after) after.append(nb::make_tuple(one.lane, one.step));
  nb::dict result;
  result["inputs"] = inputs;
  result["output"] = step.output ? pieceOf(*step.output) : nb::none();
  result["sends"] = sends;
  result["after"] = after;
  return result;
}

nb::dict rankOf(const plan::RankPlan& plan) {
  nb::list lanes;
  for (const plan::Lane& lane : plan.lanes) {
    nb::list steps;
    for (const plan::Step& step : lane.steps) steps.append(stepOf(plan, step));
    lanes.append(steps);
  }
  nb::dict result;
  result["rank"] = plan.rank;
  result["chunks_per_block"] = plan.chunks_per_block;
  result["scratch_chunks"] = plan.scratch_chunks;
  result["lanes"] = lanes;
  return result;
}

nb::dict plan(const Text& collective, int ranks, double bytes, const std::optional<Text>& algorithm,
              int root, const Text& layout) {
  plan::Choice choice;
  std::vector<plan::RankPlan> plans;
  const plan::ClosedForm counts = raising("plan", [&] {
    const Unlocked unlocked;
    const Question question = questionOf(collective, ranks, bytes, root, layout);
    choice = choiceOf(question, algorithm);
    const plan::Spec spec = choice.applied(question.spec);
    for (int rank = 0; rank < ranks; ++rank) plans.push_back(choice.algorithm->build(spec, rank));
    return choice.algorithm->closedForm(spec);
  });
  const auto claimed = [](double value) {
    return value < 0 ? nb::none() : nb::object(nb::float_(value));
  };
  nb::list all;
  for (const plan::RankPlan& one : plans) all.append(rankOf(one));
  nb::dict result;
  result["algorithm"] = choice.text();
  result["summary"] = Text(choice.algorithm->summary);
  result["rounds"] = counts.rounds < 0 ? nb::none() : nb::object(nb::int_(counts.rounds));
  result["sent_by_all"] = claimed(counts.total_sent);
  result["sent_by_busiest"] = claimed(counts.max_sent);
  result["ranks"] = all;
  return result;
}

constexpr const char* kPlan = R"(
Returns what every rank does in a collective, as `rondo plan` prints it. Needs no ranks.

collective  "allreduce", "broadcast", ...: the names of `rondo plan`, or those of the calls
bytes       size of the array; of the larger one, where a call cuts it into a block for each rank
algorithm   a name, as "ring"; None: the one that a communicator chooses for so many bytes
layout      nodes of the ranks, as "4x2"; "": all on one

The result has algorithm, summary, rounds, sent_by_all and sent_by_busiest (in blocks of the call;
None: the algorithm has no formula), and ranks: a dict for each rank, whose lanes are lists of
steps. Lanes run concurrently. A step combines its inputs, writes output and sends; inputs are
messages of a channel (source, destination, index) or pieces ("input", chunk, chunks), and after
are the (lane, step) that must be done before.

>>> ring = rondo.plan("allreduce", ranks=4, algorithm="ring")
>>> ring["rounds"], ring["sent_by_busiest"]
(6, 1.5)
)";

constexpr const char* kPredict = R"(
Returns the predicted times of a call by all algorithms that support it, the fastest first.

Arguments are those of simulate(), without what deviates from normal. Each dict has what simulate()
returns, and chosen: whether a communicator uses this algorithm. How good predictions are is in
src/model of Rondo's sources: half of them are within 5 % on a machine like the profile's.

>>> best = rondo.predict("allreduce", ranks=8, bytes=64 << 20)[0]
>>> abs(best["seconds"] / sum(best["terms"].values()) - 1) < 1e-9
True
)";

constexpr const char* kSimulate = R"(
Runs the plans of a collective on a described network, and returns when and why it ends.

collective, bytes, algorithm, layout   as in plan()
link, between   kinds of links between ranks of a node and between nodes: "inproc", "shm",
                "loopback", "ucx", "network", "nvlink", "pcie"
processors      of each node, which its ranks share; 0: one for each rank
profile         file that `rondo tune` wrote; None: a profile of Rondo's own
ideal           (seconds per message, bytes per second) in place of a profile: nothing else takes
                time
late            {rank: seconds}; slow {rank: factor of its times}
slow_links      {(from, to): factor}; float("inf"): messages never arrive
in_place        input and output are the same buffer
trace           adds steps: what ran when on which rank and lane

The result has algorithm, seconds (None: it never ends, and stuck says why), terms (latency, bytes,
reduction, contention: seconds of the critical path, which add up), tiles, messages, sent_by_all
and sent_by_busiest (bytes).

>>> ring = rondo.simulate("allreduce", ranks=4, bytes=4000, algorithm="ring", ideal=(1e-6, 1e9))
>>> round(ring["seconds"] * 1e6, 3)  # 6 rounds of 1 us and 1000 bytes
12.0
)";

} // namespace

void addPlanning(nb::module_& to) {
  to.def("plan", &plan, nb::arg("collective"), nb::kw_only(), nb::arg("ranks"),
         nb::arg("bytes") = double{1 << 20}, nb::arg("algorithm") = nb::none(), nb::arg("root") = 0,
         nb::arg("layout") = "",
         nb::sig("def plan(collective: str, *, ranks: int, bytes: float = 1048576, algorithm: "
                 "str | None = None, root: int = 0, layout: str = '') -> dict[str, typing.Any]"),
         kPlan);
  to.def("predict", &predict, nb::arg("collective"), nb::kw_only(), nb::arg("ranks"),
         nb::arg("bytes"), nb::arg("root") = 0, nb::arg("layout") = "", nb::arg("link") = "shm",
         nb::arg("between") = "network", nb::arg("processors") = 0, nb::arg("profile") = nb::none(),
         nb::arg("ideal") = nb::none(),
         nb::sig("def predict(collective: str, *, ranks: int, bytes: float, root: int = 0, layout: "
                 "str = '', link: str = 'shm', between: str = 'network', processors: int = 0, "
                 "profile: str | None = None, ideal: tuple[float, float] | None = None) -> "
                 "list[dict[str, typing.Any]]"),
         kPredict);
  to.def("simulate", &simulate, nb::arg("collective"), nb::kw_only(), nb::arg("ranks"),
         nb::arg("bytes"), nb::arg("algorithm") = nb::none(), nb::arg("root") = 0,
         nb::arg("layout") = "", nb::arg("link") = "shm", nb::arg("between") = "network",
         nb::arg("processors") = 0, nb::arg("profile") = nb::none(), nb::arg("ideal") = nb::none(),
         nb::arg("late") = Delays(), nb::arg("slow") = Delays(), nb::arg("slow_links") = Links(),
         nb::arg("in_place") = false, nb::arg("trace") = false,
         nb::sig("def simulate(collective: str, *, ranks: int, bytes: float, algorithm: str | None "
                 "= None, root: int = 0, layout: str = '', link: str = 'shm', between: str = "
                 "'network', processors: int = 0, profile: str | None = None, ideal: tuple[float, "
                 "float] | None = None, late: dict[int, float] = {}, slow: dict[int, float] = {}, "
                 "slow_links: dict[tuple[int, int], float] = {}, in_place: bool = False, trace: "
                 "bool = False) -> dict[str, typing.Any]"),
         kSimulate);
}

} // namespace rondo::compat::python
