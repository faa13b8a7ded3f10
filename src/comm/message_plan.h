// The plan of a Send or Recv.
#pragma once

#include <utility>

#include "comm/call.h"
#include "engine/fabric.h"
#include "plan/plan.h"

namespace rondo::comm {

/// One step, on the channel for point-to-point messages.
inline plan::RankPlan messagePlan(const Call& call, int rank, int size) {
  plan::RankPlan plan;
  plan.spec = {Collective::sendrecv, size, call.root, 0};
  plan.rank = rank;
  plan::Step step;
  if (call.sending) {
    plan.channels.push_back({rank, call.root, transport::ChannelId::kPointToPoint});
    step.inputs.push_back({plan::Operand::kLocal, {plan::Space::input, 0, 1}});
    step.sends.push_back(0);
  } else {
    plan.channels.push_back({call.root, rank, transport::ChannelId::kPointToPoint});
    step.inputs.push_back({0, {}});
    step.output = plan::Piece{plan::Space::output, 0, 1};
  }
  plan.lanes.push_back({{std::move(step)}});
  return plan;
}

} // namespace rondo::comm
