// Reads machines, and gives their links to the profile of a simulation.
#include "tools/simulate_topology.h"

#include <algorithm>
#include <limits>

#include "rondo/error.h"
#include "topology/hwloc_file.h"

namespace rondo::tools {

namespace {

using model::LinkClass;
using topology::Kind;
using topology::Machine;

void setSpeed(model::Profile& profile, LinkClass kind, double gbs) {
  auto& link = profile.links[static_cast<std::size_t>(kind)];
  if (gbs > 0 && link) link->wire = model::Curve(1e-9 / gbs);
}

/// GB/s between the first GPUs by NVLink, in each direction; 0: unknown, negative: not all pairs of
/// them are linked. Through switches a GPU uses all of its links for one peer.
double nvLinkSpeed(const Machine& machine, int gpus) {
  double slowest = std::numeric_limits<double>::infinity();
  int pairs = 0;
  for (const topology::NvLink& link : machine.nvlinks) {
    if (link.b >= gpus) continue;
    slowest = std::min(slowest, link.links * link.gbs);
    ++pairs;
  }
  return pairs < gpus * (gpus - 1) / 2 || pairs == 0 ? -1 : slowest;
}

double slowestGpu(const Machine& machine) {
  double slowest = std::numeric_limits<double>::infinity();
  for (const int gpu : machine.all(Kind::gpu)) slowest = std::min(slowest, machine.at(gpu).gbs);
  return slowest;
}

double allCards(const Machine& machine) {
  double sum = 0;
  for (const int card : machine.all(Kind::card)) sum += machine.at(card).gbs;
  return sum;
}

} // namespace

plan::Layout placeOn(const std::string& file, int nodes, int ranks, const NetworkConfig& options,
                     PlannedNetwork& network) {
  const Machine machine = topology::readMachine(file);
  if (nodes == 0) nodes = std::max(static_cast<int>(machine.nodes.size()), 1);
  const bool gpus = !machine.all(Kind::gpu).empty();
  const Kind kind = gpus                              ? Kind::gpu
                    : machine.all(Kind::core).empty() ? Kind::processor
                                                      : Kind::core;
  const auto places = static_cast<int>(machine.all(kind).size());
  if (places == 0 || ranks > std::int64_t{places} * nodes)
    throw Error(
        ErrorCode::invalid_argument,
        file + ": " + std::to_string(nodes) + (nodes == 1 ? " machine has " : " machines have ") +
            std::to_string(std::int64_t{places} * nodes) + (gpus ? " GPUs" : " cores") + " for " +
            std::to_string(ranks) + " ranks; --nodes sets the number of machines");
  const bool given = !options.ideal.empty();
  if (gpus && options.link.empty()) {
    const double nvlink = nvLinkSpeed(machine, std::min(ranks, places));
    network.inside = nvlink >= 0 ? LinkClass::nvlink : LinkClass::pcie;
    if (!given)
      setSpeed(network.profile, network.inside, nvlink >= 0 ? nvlink : slowestGpu(machine));
  }
  if (!gpus && network.processors == 0) network.processors = places;
  if (!given && options.between.empty())
    setSpeed(network.profile, LinkClass::network, allCards(machine));
  network.profile.name += " on " + machine.name;
  plan::Layout layout;
  if (ranks <= places) return layout;
  auto& groups = layout.groups.emplace_back();
  for (int rank = 0; rank < ranks; ++rank) groups.push_back(rank / places);
  return layout;
}

} // namespace rondo::tools
