// Plans the calls of a communicator.
#include "comm/call_planner.h"

#include "base/log.h"
#include "comm/message_plan.h"
#include "device/window.h"
#include "planner/explain.h"
#include "planner/stored.h"
#include "rondo/error.h"

namespace rondo::comm {

namespace {

plan::BlockTable tableOf(const Blocks& blocks) {
  return {{blocks.counts.begin(), blocks.counts.end()},
          {blocks.offsets.begin(), blocks.offsets.end()}};
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

CallPlanner::Bound CallPlanner::bind(const Call& call, engine::Engine& engine) {
  plan::CallShape shape{call.count, call.type, call.op.kind()};
  if (call.layout) {
    shape.input = tableOf(call.layout->input);
    shape.output = tableOf(call.layout->output);
  }
  if (call.collective == Collective::sendrecv) {
    return {engine.bindMessage(messagePlan(call, rank_, size_), shape, sign(call)), {}};
  }
  const plan::Spec spec = specOf(call);
  const auto [choice, by] = planner::decision(spec, bytesOf(call), policy_, plans_);
  std::string algorithm = choice.text();
  // Once per shape. The choice is the same on all ranks, so one of them tells it.
  base::log(rank_ == 0 ? LogLevel::info : LogLevel::trace, title(call), " of ", call.count, " ",
            name(call.type), " uses ", algorithm, " (", planner::name(by), ")");
  return {engine.bind(plans_.of(*choice.algorithm, choice.applied(spec)), shape),
          std::move(algorithm)};
}

double CallPlanner::predict(const Call& call) const {
  const plan::Link link;
  const double bytes = static_cast<double>(call.count * sizeOf(call.type));
  if (call.collective == Collective::sendrecv) return link.alpha + bytes * link.beta;
  const plan::Spec spec = specOf(call);
  const plan::Choice choice = planner::choose(spec, bytesOf(call), policy_);
  return choice.algorithm->cost(choice.applied(spec), link, bytes);
}

Explanation CallPlanner::explain(const Call& call) const {
  if (call.collective == Collective::sendrecv)
    throw Error(ErrorCode::invalid_argument, "explain: a Send or Recv has no algorithm");
  plan::Spec spec = specOf(call);
  if (spec.root < 0 || spec.root >= size_)
    throw Error(ErrorCode::invalid_argument,
                "explain: root " + std::to_string(spec.root) + " is not a rank");
  if (call.layout || policy_.devices) {
    plan::PlanCache plans(rank_);
    const auto [choice, by] = planner::decision(spec, bytesOf(call), policy_, plans);
    return planner::unexplained(choice, by,
                                policy_.devices ? "Times on devices are not predicted."
                                                : "Times of blocks of different sizes are not "
                                                  "predicted.");
  }
  const planner::SiteNetwork site(policy_.site, planner::usedProfile(profile_));
  return planner::explain(
      spec, {.bytes = static_cast<double>(call.count * sizeOf(call.type)), .type = call.type},
      policy_, site.network());
}

std::string CallPlanner::algorithmFor(Collective collective, std::size_t count,
                                      DataType type) const {
  if (collective == Collective::sendrecv) return "sendrecv";
  const plan::Spec spec = specOf({.collective = collective, .count = count, .type = type});
  return planner::choose(spec, count * sizeOf(type), policy_).text();
}

} // namespace rondo::comm
