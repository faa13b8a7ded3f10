// Simulates one tile by discrete events: steps run in the order of their earliest start times.
#include "plan/critical_path.h"

#include <algorithm>
#include <queue>
#include <vector>

#include "plan/check_parts.h"

namespace rondo::plan {

double criticalPath(std::span<const RankPlan> plans, double alpha, double beta, double bytes) {
  const Graph graph = wholeGraph(plans);
  const auto& nodes = graph.nodes();
  if (nodes.empty()) return 0;

  std::vector<std::uint32_t> waits(nodes.size());
  std::vector<double> start(nodes.size());
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    graph.forEachLocalSuccessor(n, [&](std::uint32_t next) { ++waits[next]; });
    graph.forEachMeeting(n, [&](std::uint32_t there) { ++waits[there]; });
  }
  for (const Graph::Message& message : graph.messages()) ++waits[message.to];
  using Ready = std::pair<double, std::uint32_t>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    if (waits[n] == 0) ready.push({0, n});
  }
  const auto release = [&](std::uint32_t n, double time) {
    start[n] = std::max(start[n], time);
    if (--waits[n] == 0) ready.push({start[n], n});
  };

  std::vector<double> out_free(plans.size()), in_free(plans.size()); // when each line becomes free
  const double chunk =
      traits(plans[0].spec.collective).movesData() ? bytes / plans[0].chunks_per_block : 0;
  double end = 0;
  while (!ready.empty()) {
    const auto [now, n] = ready.top();
    ready.pop();
    end = std::max(end, now);
    for (const auto message : graph.sent(n)) {
      const Graph::Message& m = graph.messages()[message];
      const Channel& channel = graph.channels()[m.channel];
      const double busy = nodes[n].step->shape.count * chunk * beta;
      double& out = out_free[static_cast<std::size_t>(channel.src)];
      double& in = in_free[static_cast<std::size_t>(channel.dst)];
      const double sending = std::max(out, now);
      out = sending + busy;
      in = std::max(in, sending + alpha) + busy;
      end = std::max(end, in);
      release(m.to, in);
    }
    // Through the switch, a piece crosses the step's line once, in one direction.
    const Step& step = *nodes[n].step;
    const bool switched = step.to_all || (!step.inputs.empty() && step.inputs[0].of_all);
    const double done = now + (switched ? step.shape.count * chunk * beta : 0);
    end = std::max(end, done);
    graph.forEachLocalSuccessor(n, [&](std::uint32_t next) {
      release(next, done + (nodes[next].step->is_barrier ? alpha : 0));
    });
    graph.forEachMeeting(n, [&](std::uint32_t there) { release(there, done + alpha); });
  }
  return end;
}

} // namespace rondo::plan
