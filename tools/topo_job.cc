// Shows where the ranks of a running job are. Each rank reports its transports, and the first rank
// of each node its machine.
#include "tools/topo_job.h"

#include <cstdio>
#include <map>
#include <numeric>

#include "rondo/communicator.h"
#include "tools/bench/json.h"
#include "tools/command.h"
#include "tools/topo_svg.h"
#include "tools/topo_text.h"
#include "topology/place.h"
#include "topology/system.h"
#include "topology/wire.h"

namespace rondo::tools {

namespace {

using topology::Machine;

/// Gathers what each rank passes; element r is rank r's. Collective.
std::vector<std::vector<std::byte>> gathered(Communicator& comm,
                                             const std::vector<std::byte>& own) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::uint64_t size = own.size();
  std::vector<std::uint64_t> sizes(ranks);
  comm.allGather(&size, sizes.data(), 1, DataType::uint64);
  const std::vector<std::size_t> counts(sizes.begin(), sizes.end());
  std::vector<std::size_t> offsets(ranks);
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), std::size_t{0});
  std::vector<std::byte> all(offsets.back() + counts.back());
  comm.allGatherv(own.data(), own.size(), all.data(), {counts, offsets}, DataType::uint8);
  std::vector<std::vector<std::byte>> parts;
  for (std::size_t r = 0; r < ranks; ++r)
    parts.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(offsets[r]),
                       all.begin() + static_cast<std::ptrdiff_t>(offsets[r] + counts[r]));
  return parts;
}

/// Names of the transports to all ranks, one per line.
std::vector<std::byte> transportsOf(const Communicator& comm) {
  std::string names;
  for (int peer = 0; peer < comm.size(); ++peer) names += comm.transportTo(peer) + "\n";
  const auto bytes = std::as_bytes(std::span(names));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::string> lines(const std::vector<std::byte>& bytes) {
  std::vector<std::string> all(1);
  for (const std::byte byte : bytes) {
    if (byte == std::byte{'\n'}) all.emplace_back();
    else all.back() += static_cast<char>(byte);
  }
  return all;
}

/// A job as rank 0 knows it.
struct Job {
  std::vector<Place> places;
  std::vector<std::vector<std::string>> transports; ///< [rank][peer]
  std::vector<DrawnNode> nodes;                     ///< in the order of their first ranks

  Way way(std::size_t a, std::size_t b) const {
    return {topology::linkBetween(places[a], places[b]), transports[a][b]};
  }
};

/// Gathers the description of the job. Collective.
Job describe(Communicator& comm) {
  Job job;
  std::map<std::string, std::size_t> numbers;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const Place& place = job.places.emplace_back(comm.placeOf(rank));
    const auto [at, added] = numbers.try_emplace(place.node, job.nodes.size());
    if (added) job.nodes.push_back({place.host, {}, {}});
    topology::Seat seat;
    seat.processors = place.processors;
    job.nodes[at->second].ranks.emplace_back(rank, seat);
  }
  for (const auto& names : gathered(comm, transportsOf(comm)))
    job.transports.push_back(lines(names));
  std::vector<std::byte> own;
  const auto first = [&](const DrawnNode& node) { return node.ranks.front().first; };
  std::string missing;
  for (const DrawnNode& node : job.nodes)
    if (first(node) == comm.rank()) own = topology::encoded(topology::thisMachine(missing));
  if (comm.rank() == 0) reportMissing(missing);
  const auto machines = gathered(comm, own);
  for (DrawnNode& node : job.nodes)
    node.machine = topology::decodedMachine(machines[static_cast<std::size_t>(first(node))]);
  return job;
}

/// If a host has several nodes (RONDO_NODE), adds the nodes' names to the host's name.
void nameNodes(Job& job) {
  std::map<std::string, int> hosts;
  for (const DrawnNode& node : job.nodes) ++hosts[node.name];
  for (DrawnNode& node : job.nodes)
    if (hosts[node.name] > 1)
      node.name += " (" + job.places[static_cast<std::size_t>(node.ranks.front().first)].node + ")";
}

std::string jobText(const Job& job) {
  std::string text;
  std::vector<std::string> names;
  for (const DrawnNode& node : job.nodes) {
    text += node.name + ": " + summary(node.machine) + "\n";
    for (const auto& [rank, seat] : node.ranks)
      text += "  rank " + std::to_string(rank) + ": " +
              topology::text(job.places[static_cast<std::size_t>(rank)]) + "\n";
  }
  for (std::size_t rank = 0; rank < job.places.size(); ++rank)
    names.push_back(std::to_string(rank));
  if (names.size() < 2) return text;
  return text + "\nLinks of ranks, and their transports\n" +
         linkTable(names, [&](std::size_t a, std::size_t b) { return job.way(a, b); });
}

} // namespace

void reportMissing(const std::string& hwloc) {
  if (!hwloc.empty())
    std::fprintf(stderr, "rondo: devices are not shown, because hwloc is missing: %s\n",
                 hwloc.c_str());
}

int drawJob(const std::string& bind, const std::string& svg) {
  const LaunchInfo launch = Rendezvous::detectLauncher();
  try {
    Options options = Options::fromEnvironment();
    if (!bind.empty()) options.bind = bind;
    else if (options.bind.empty()) options.bind = "core";
    Communicator comm = Communicator::create(Rendezvous::environment(), options);
    Job job = describe(comm);
    if (comm.rank() != 0) return kSuccess;
    nameNodes(job);
    std::fputs(jobText(job).c_str(), stdout);
    const std::string title = job.nodes.size() == 1 ? job.nodes.front().name
                                                    : std::to_string(job.nodes.size()) + " nodes";
    if (!svg.empty())
      writeFile(svg,
                jobSvg(title,
                       std::to_string(job.places.size()) +
                           " ranks of a running job, numbered on their cores; machines read by " +
                           job.nodes.front().machine.source,
                       job.nodes, [&](std::size_t a, std::size_t b) { return job.way(a, b); }));
    return kSuccess;
  } catch (const std::exception& error) {
    return reportError(error, launch.rank);
  }
}

} // namespace rondo::tools
