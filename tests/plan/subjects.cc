// Collects the subjects.
#include "subjects.h"

#include "plan/builder.h"
#include "plan/check.h"
#include "plan/registry.h"

namespace rondo::test {

using namespace plan;

std::vector<RankPlan> threeLaneRing(int ranks) {
  const int p = ranks;
  const Spec spec{.collective = Collective::allreduce, .ranks = p};
  std::vector<RankPlan> plans;
  for (int r = 0; r < p; ++r) {
    const int left = (r + p - 1) % p, right = (r + 1) % p;
    const auto chunk = [&](int i) { return ((i % p) + p) % p; };
    Builder plan(spec, r, p);
    auto receiver = plan.lane(), reducer = plan.lane(), sender = plan.lane();
    sender.send(in(r), right);
    for (int s = 0; s + 1 < p; ++s) { // reduce
      const int c = chunk(r - s - 1);
      const bool last = s + 2 == p;
      auto got = receiver.recv(left, scratch(c));
      auto sum = reducer.step().with(scratch(c)).with(in(c)).to(last ? out(c) : scratch(c));
      sum.after(got);
      sender.send(last ? out(c) : scratch(c), right).after(sum);
    }
    for (int s = 0; s + 1 < p; ++s) { // share
      auto got = receiver.recv(left, out(chunk(r - s)));
      if (s + 2 < p) sender.send(out(chunk(r - s)), right).after(got);
    }
    plans.push_back(plan.take());
  }
  return plans;
}

std::vector<Subject> subjects(int ranks) {
  std::vector<Subject> result;
  for (const Collective collective : kCollectives) {
    if (collective == Collective::sendrecv) continue;
    for (const int root : {0, ranks - 1}) {
      if (root != 0 && !hasRoot(collective)) continue;
      for (const int parameter : {0, 2, 3}) {
        const Spec spec{.collective = collective,
                        .ranks = ranks,
                        .root = root,
                        .parameter = parameter,
                        .multicast = true};
        for (const Algorithm* algorithm : supporting(spec)) {
          result.push_back({std::string(algorithm->name) + " " + std::string(name(collective)) +
                                " p=" + std::to_string(ranks) + " root=" + std::to_string(root) +
                                " /" + std::to_string(parameter),
                            buildAll(*algorithm, spec)});
        }
      }
      if (ranks == 1) break;
    }
  }
  if (ranks > 1) {
    result.push_back({"three-lane ring p=" + std::to_string(ranks), threeLaneRing(ranks)});
  }
  return result;
}

} // namespace rondo::test
