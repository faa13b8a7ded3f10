// parameter_server: workers push data to servers, which reduce it, and pull the result.
//
// "parameter_server/k" has k servers, ranks 0..k-1, each for one of k chunks (default: one server
// for everything). All ranks are workers, including the servers. A server combines all parts of its
// chunk in one pass, in rank order (the deterministic result), and sends it to all ranks in the
// same step. Pushing, serving and pulling are separate lanes: a worker pushes the next tile while
// it waits for the last one. A single server's link carries (p-1) n in each direction; k servers
// share that.
//
// Time, one server: 2 alpha + 2 (p-1) n beta + (p-1) n gamma; with k: 2 k alpha, the rest over k.
#include <algorithm>
#include <optional>

#include "plan/builder.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

/// Channel indices: a server is also a worker, and may push to the rank that pulls from it.
constexpr int kPush = 0, kPull = 1;

int servers(const Spec& spec) { return std::max(spec.parameter, 1); }

bool supports(const Spec& spec) {
  Spec without = spec;
  without.parameter = 0;
  return spec.collective == Collective::allreduce && plain(without) && spec.parameter >= 0 &&
         spec.parameter <= spec.ranks;
}

double cost(const Spec& spec, const Link& link, double bytes) {
  const int k = servers(spec), others = spec.ranks - 1;
  if (others == 0) return 0;
  // A server pushes to the other servers and answers all ranks; a worker communicates with all k.
  const double part = bytes / k;
  return 2 * k * link.alpha + part * ((k - 1 + others) * link.beta + others * link.gamma) +
         part * std::max(others, k) * link.beta;
}

ClosedForm closedForm(const Spec& spec) {
  if (spec.ranks == 1) return {};
  const int k = servers(spec), workers = spec.ranks - k; // that are no servers
  const double others = spec.ranks - 1;
  // A worker pushes for k rounds, then pulls for k. Pulling begins with server 0. A single worker
  // pushes to that server first, so with several servers it is ready a round earlier. Servers push
  // and pull k-1 times.
  const int saved = workers == 0 ? 2 : (workers == 1 && k > 1 ? 1 : 0);
  // Each message is 1/k of the data. The busiest rank is a server: it pushes k-1 messages and sends
  // its result to all other ranks.
  return {2 * k - saved, 2 * others, (k - 1 + others) / k};
}

RankPlan build(const Spec& spec, int rank) {
  if (spec.ranks == 1) return alone(spec);
  const int p = spec.ranks, k = servers(spec);
  Builder plan(spec, rank, k);
  std::optional<LaneWriter> push, pull; // a lane is made only if it has work
  for (int i = 0; i < k; ++i) {
    const int server = (rank + i) % k; // so that the ranks do not all push to one server first
    if (server == rank) continue;
    if (!push) push = plan.lane();
    push->send(in(server), server, kPush);
  }
  if (rank < k) {
    auto serve = plan.lane().step();
    for (int r = 0; r < p; ++r) {
      if (r == rank) serve.with(in(rank));
      else serve.recv(r, kPush);
    }
    serve.to(out(rank));
    for (int i = 1; i < p; ++i) serve.send((rank + i) % p, kPull);
  }
  for (int server = 0; server < k; ++server) {
    if (server == rank) continue;
    if (!pull) pull = plan.lane();
    pull->recv(server, out(server), kPull);
  }
  return plan.take();
}

} // namespace

extern const plan::Algorithm parameter_server;
const plan::Algorithm parameter_server{
    .name = "parameter_server",
    .summary = "workers push to servers, which reduce, and pull the result; /k servers",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
