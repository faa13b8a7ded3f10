// Plans the calls of a communicator.
#include "comm/call_planner.h"

#include <algorithm>
#include <numeric>

#include "base/log.h"
#include "comm/message_plan.h"
#include "device/window.h"
#include "planner/explain.h"
#include "planner/stored.h"
#include "planner/suitability.h"
#include "rondo/error.h"

namespace rondo::comm {

namespace {

plan::BlockTable tableOf(const Blocks& blocks) {
  return {{blocks.counts.begin(), blocks.counts.end()},
          {blocks.offsets.begin(), blocks.offsets.end()}};
}

plan::CallShape shapeOf(const Call& call) {
  plan::CallShape shape{call.count, call.type, call.op.kind()};
  if (call.layout) {
    shape.input = tableOf(call.layout->input);
    shape.output = tableOf(call.layout->output);
  }
  return shape;
}

/// The size by which an algorithm is chosen.
std::size_t bytesOf(const Call& call) {
  return call.layout ? planner::kUneven : call.count * sizeOf(call.type);
}

} // namespace

plan::Spec CallPlanner::specOf(const Call& call) const {
  const auto kind = device::programKind(call.type, call.op.kind(), true);
  return {.collective = call.collective,
          .ranks = size_,
          .root = hasRoot(call.collective) ? call.root : 0,
          .layout = policy_.layout,
          .multicast = policy_.multicast &&
                       (!reduces(call.collective) || device::switchReduces(kind.type, kind.op))};
}

planner::Decision CallPlanner::decide(const Call& call, plan::PlanCache& plans) const {
  using By = planner::Decision::By;
  planner::Decision made = planner::decision(specOf(call), bytesOf(call), policy_, plans);
  if (made.by == By::user || made.by == By::rules_file) return made;
  // The measured call may have had another root or type, so its fastest algorithm may be unable to
  // serve this call; then the next one does.
  const plan::Spec spec = specOf(call);
  const planner::Suitability serves(spec, bytesOf(call), policy_, plans);
  for (const Trials::Timed& one : trials_.of(call.collective, bytesOf(call)))
    if (serves(one.choice)) {
      made.choice = one.choice;
      made.by = By::measurement;
      break;
    }
  return made;
}

std::optional<Contest> CallPlanner::contest(const Call& call) {
  Contest contest{candidates(call, specOf(call), policy_, plans_), {}, {}, {}};
  if (contest.candidates.size() < 2) return {};
  planner::Policy rules = policy_; // what the user says of other collectives does not matter
  rules.algorithms.clear();
  rules.rules_file = nullptr;
  const auto usual = [&](Collective collective, std::size_t bytes) {
    return planner::choose({.collective = collective, .ranks = size_, .layout = policy_.layout},
                           bytes, rules, plans_);
  };
  contest.allreduce = usual(Collective::allreduce, contest.candidates.size() * sizeof(double));
  contest.barrier = usual(Collective::barrier, 0);
  contest.usual = planner::choose(specOf(call), bytesOf(call), policy_, plans_);
  return contest;
}

engine::BoundPlan CallPlanner::bind(const Call& call, const plan::Choice& choice,
                                    engine::Engine& engine) {
  return engine.bind(plans_.of(*choice.algorithm, choice.applied(specOf(call))), shapeOf(call));
}

CallPlanner::Bound CallPlanner::bind(const Call& call, engine::Engine& engine) {
  if (call.collective == Collective::sendrecv)
    return {engine.bindMessage(messagePlan(call, rank_, size_), shapeOf(call), sign(call)), {}};
  const planner::Decision decided = decide(call, plans_);
  if (!call.layout) trials_.settle(call);
  std::string algorithm = decided.choice.text();
  // Once per shape. The choice is the same on all ranks, so one of them tells it.
  base::log(rank_ == 0 ? LogLevel::info : LogLevel::trace, title(call), " of ", call.count, " ",
            name(call.type), " uses ", algorithm, " (", planner::decidedBy(decided), ")",
            decided.passed_over.empty() ? "" : "; passed over: ", decided.passed_over);
  return {bind(call, decided.choice, engine), std::move(algorithm)};
}

plan::Choice CallPlanner::parse(const Call& call, std::string_view algorithm) {
  checkCollective(call.collective);
  if (call.collective == Collective::sendrecv)
    throw Error(ErrorCode::invalid_argument, title(call) + ": no algorithm can be named for it");
  try {
    return plan::parseChoice(algorithm);
  } catch (const Error& error) {
    throw Error(error.code(), title(call) + ": " + error.what());
  }
}

void CallPlanner::requireServes(const Call& call, const plan::Choice& named) {
  try { // what RONDO_ALGO refuses for this collective
    plan::parseAlgorithms(std::string(name(call.collective)) + ":" + named.text(), call.collective);
  } catch (const Error& error) {
    throw Error(error.code(), title(call) + ": " + error.what());
  }
  planner::Policy policy = policy_;
  policy.algorithms.clear(); // the call's choice comes before the user's
  const plan::Spec spec = specOf(call);
  const std::string_view objection =
      planner::Suitability(spec, bytesOf(call), policy, plans_).objection(named);
  if (!objection.empty())
    throw Error(ErrorCode::unsupported, title(call) + " of " + std::to_string(size_) +
                                            " ranks: the call names algorithm '" + named.text() +
                                            "', which " + std::string(objection));
}

double CallPlanner::predict(const Call& call, const plan::Choice* named) const {
  const plan::Link link;
  std::size_t count = call.layout ? 0 : call.count;
  if (call.layout) { // the mean block; a single block counts as the mean of all ranks
    for (const Blocks& table : {call.layout->input, call.layout->output}) {
      const auto all = std::accumulate(table.counts.begin(), table.counts.end(), std::size_t{0});
      count = std::max(count, all / static_cast<std::size_t>(size_));
    }
  }
  const double bytes = static_cast<double>(count) * static_cast<double>(sizeOf(call.type));
  if (call.collective == Collective::sendrecv) return link.alpha + bytes * link.beta;
  plan::PlanCache plans(rank_);
  const plan::Choice choice = named ? *named : decide(call, plans).choice;
  return choice.algorithm->cost(choice.applied(specOf(call)), link, bytes);
}

Explanation CallPlanner::explain(const Call& call) const {
  checkCollective(call.collective);
  if (call.collective == Collective::sendrecv)
    throw Error(ErrorCode::invalid_argument, "explain: a Send or Recv has no algorithm");
  validateShape(call, size_);
  const plan::Spec spec = specOf(call);
  plan::PlanCache plans(rank_);
  const planner::Decision decided = decide(call, plans);
  if (call.layout || policy_.devices) {
    return planner::unexplained(decided, policy_.devices
                                             ? "Times on devices are not predicted."
                                             : "Times of blocks of different sizes are not "
                                               "predicted.");
  }
  const planner::SiteNetwork site(policy_.site, planner::usedProfile(profile_));
  const planner::Question question{{.bytes = static_cast<double>(bytesOf(call)), .type = call.type},
                                   decided};
  Explanation made =
      std::move(planner::explain(spec, {&question, 1}, policy_, site.network(), plans).front());
  if (decided.by == planner::Decision::By::measurement)
    made.why += " The ranks measured that no other is clearly faster than " + made.algorithm + ".";
  for (const Trials::Timed& timed : trials_.of(call.collective, bytesOf(call)))
    for (Explanation::Candidate& one : made.candidates)
      if (one.algorithm == timed.choice.text()) one.measured = timed.seconds;
  return made;
}

std::string CallPlanner::algorithmFor(Collective collective, std::size_t count,
                                      DataType type) const {
  checkCollective(collective);
  if (collective == Collective::sendrecv) return "sendrecv";
  const Call call{.collective = collective, .count = count, .type = type};
  validateShape(call, size_);
  plan::PlanCache plans(rank_);
  return decide(call, plans).choice.text();
}

} // namespace rondo::comm
