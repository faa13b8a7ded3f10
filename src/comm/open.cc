// Opens a communicator: the ranks agree on everything that they need before the first call.
//
// Phases, each with the results of those before: agree on settings; open devices and transports;
// exchange places and addresses; connect; decide how calls are planned; make the engine.
#include <algorithm>
#include <atomic>

#include "base/log.h"
#include "comm/agree.h"
#include "comm/bind_rank.h"
#include "comm/communicator_impl.h"
#include "comm/communicators.h"
#include "comm/decisions.h"
#include "comm/devices.h"
#include "comm/links.h"
#include "engine/device_engine.h"
#include "engine/host_engine.h"
#include "plan/layout.h"
#include "plan/registry.h"
#include "rondo/error.h"
#include "topology/place.h"

namespace rondo::comm {

namespace {

/// Groups ranks by node. If all packages are known and some node has ranks on several, adds a
/// second level by package. No levels if all ranks form one group.
plan::Layout layoutOf(const std::vector<Place>& places) {
  std::vector<std::string> nodes, packages;
  bool known = true;
  for (const Place& place : places) {
    nodes.push_back(place.node);
    packages.push_back(place.node + "\n" + place.machine + "\n" + std::to_string(place.package));
    known = known && place.package >= 0;
  }
  plan::Layout layout;
  layout.groups.push_back(plan::numbered(nodes));
  if (auto by_package = plan::numbered(packages); known && by_package != layout.groups[0])
    layout.groups.push_back(std::move(by_package));
  if (layout.groups.size() == 1 && layout.nodes().size() == 1) return {};
  base::log(LogLevel::info, "the ranks' nodes",
            layout.groups.size() > 1 ? " and their packages: " : ": ", text(layout));
  return layout;
}

/// Throws Error(invalid_argument) that names the variable. Warns about ignored words of NCCL_ALGO,
/// once per process, since programs make many communicators.
void checkAlgorithms(const std::string& text) {
  try {
    for (Collective collective : kCollectives)
      if (collective != Collective::sendrecv) plan::parseAlgorithms(text, collective);
  } catch (const Error& error) {
    const std::string variables = plan::isWish(text) ? "RONDO_ALGO or NCCL_ALGO" : "RONDO_ALGO";
    throw Error(error.code(), variables + " (Options::algorithm) of rank 0: " + error.what());
  }
  static std::atomic<bool> said{false};
  if (!plan::isWish(text) || !base::logs(LogLevel::warn)) return;
  const std::string words = plan::passedOver(text);
  if (!words.empty() && !said.exchange(true))
    base::log(LogLevel::warn, "these words of NCCL_ALGO=", text.substr(1),
              " (the same as RONDO_ALGO=", text, ") are ignored: ", words);
}

Links knownLinks(const std::vector<std::string>& nodes, int own) {
  Links links{.apart = {}, .broken = Broken(nodes.size())};
  for (const std::string& node : nodes)
    links.apart.push_back(node != nodes[static_cast<std::size_t>(own)]);
  return links;
}

/// The number of processors that the ranks of this machine may use together; at least 1.
std::size_t processorsOf(const std::vector<Place>& places, const Place& own) {
  topology::Processors all;
  for (const Place& place : places)
    if (place.machine == own.machine) all = topology::either(all, place.processors);
  return std::max<std::size_t>(all.size(), 1);
}

/// Whether the ranks of this machine outnumber the processors that they may use.
bool oversubscribed(const std::vector<Place>& places, const Place& own) {
  const auto ranks = std::count_if(places.begin(), places.end(), [&](const Place& place) {
    return place.machine == own.machine;
  });
  return static_cast<std::size_t>(ranks) > processorsOf(places, own);
}

/// The object that all ranks of an in-process rendezvous share; null for other rendezvous.
template <class Shared>
std::shared_ptr<Shared> sharedOf(const bootstrap::Session& session, const std::string& what) {
  if (!session.board()) return nullptr;
  return session.board()->findOrMake<Shared>(what + " of " + std::to_string(session.communicator()),
                                             [] { return std::make_shared<Shared>(); });
}

/// How this rank can reach the others.
struct Reach {
  Devices devices;
  Links links;
  Transports transports;
};

/// Collective. Opens this rank's device and its transports, and proves the links between devices.
Reach openTransports(bootstrap::Session& session, const Agreed& agreed) {
  Reach reach;
  reach.devices = meetDevices(session, agreed.options, agreed.devices);
  reach.links = knownLinks(agreed.nodes, session.rank());
  if (reach.devices.own) proveLinks(session, agreed.options, reach.devices.context(), reach.links);
  if (reach.links.network_channels)
    reach.devices.channel.limitToNetwork(reach.devices.size.slot_bytes);
  reach.transports = makeTransports(session, agreed.options, reach.devices.context(), reach.links);
  return reach;
}

/// The transport to each rank.
std::vector<engine::Fabric::Peer> peersOf(const Reach& reach, const std::vector<RankInfo>& infos,
                                          int own) {
  std::vector<engine::Fabric::Peer> peers(infos.size());
  for (std::size_t r = 0; r < infos.size(); ++r) {
    if (static_cast<int>(r) == own) continue;
    peers[r] = connectPeer(reach.transports, infos[r].addresses, static_cast<int>(r), reach.links);
    base::log(LogLevel::info, "rank ", r, " is reached by ", peers[r].transport->name());
  }
  return peers;
}

/// The devices and channels that an engine uses.
struct Connected {
  Devices devices;
  std::unique_ptr<engine::Fabric> fabric;
};

/// Collective. Chooses the transport to each rank, and what follows from it on all ranks.
Connected connect(bootstrap::Session& session, const Options& options, Reach reach,
                  const std::vector<RankInfo>& infos) {
  auto peers = peersOf(reach, infos, session.rank());
  bool network_channels = false, apart = false;
  for (const auto& peer : peers) {
    network_channels |= peer.transport && !peer.transport->mapped();
    apart |= peer.transport && !peer.transport->seesDevices();
  }
  network_channels = anybody(session, network_channels, options.init_timeout);
  if (reach.devices.own && anybody(session, apart, options.init_timeout))
    reach.devices.lends = false;
  const auto least = std::min_element(
      infos.begin(), infos.end(),
      [](const RankInfo& a, const RankInfo& b) { return a.slot_bytes < b.slot_bytes; });
  return {std::move(reach.devices),
          std::make_unique<engine::Fabric>(session.rank(), session.communicator(),
                                           std::move(reach.transports), std::move(peers),
                                           least->slot_bytes, network_channels)};
}

/// Collective. What the planner knows about the communicator. Equal on all ranks, except `site`:
/// how this rank reaches the others.
planner::Policy policyOf(bootstrap::Session& session, const Agreed& agreed,
                         const Connected& connected, const std::vector<Place>& places) {
  // Must be equal on all ranks, so one oversubscribed machine is enough.
  const bool any_oversubscribed =
      std::any_of(places.begin(), places.end(),
                  [&](const Place& place) { return oversubscribed(places, place); });
  const bool devices = connected.devices.own != nullptr; // where ranks do not wait for processors
  const engine::Fabric& fabric = *connected.fabric;
  const Place& own = places[static_cast<std::size_t>(session.rank())];
  const Options& options = agreed.options;
  planner::Policy policy{.algorithms = options.algorithm,
                         .deterministic = options.deterministic,
                         .oversubscribed = any_oversubscribed && !devices,
                         .network_channels = fabric.networkChannels(),
                         .devices = devices,
                         .layout = layoutOf(places),
                         .multicast = connected.devices.switched(),
                         .site = siteOf(fabric, places, session.rank(), processorsOf(places, own),
                                        fabric.messageBytes()),
                         .rules_file = agreed.rules};
  policy.table = agreeOnTable(session, options, policy);
  return policy;
}

std::unique_ptr<engine::Engine> makeEngine(const bootstrap::Session& session,
                                           const Options& options, const Connected& connected,
                                           bool oversubscribed) {
  const auto& [devices, fabric] = connected;
  if (!devices.own)
    return std::make_unique<engine::HostEngine>(
        *fabric, engine::HostEngine::Settings{options.threads, oversubscribed, options.checksum,
                                              options.check_reductions});
  return std::make_unique<engine::DeviceEngine>(
      devices.own, *fabric,
      engine::DeviceEngine::Settings{
          session.rank(), session.size(), devices.channel, devices.residency, options.timeout,
          &session.failedWord(), devices.neighbour, devices.lends,
          sharedOf<engine::StreamUsers>(session, "streams"),
          devices.lends ? sharedOf<engine::LaunchRoster>(session, "launches") : nullptr,
          devices.window});
}

/// Collective: all phases of opening a communicator.
CommunicatorImpl::Parts assemble(std::unique_ptr<bootstrap::Session> session, const Options& given,
                                 const planner::RulesFile* rules) {
  const base::LogRank in_log(session->rank());
  Agreed agreed = agree(*session, given, rules);
  bindRank(agreed.options.bind, agreed.unbound, session->rank());
  checkAlgorithms(agreed.options.algorithm);

  Reach reach = openTransports(*session, agreed);
  const std::vector<RankInfo> infos = exchangeInfo(*session, agreed, reach.transports);
  Connected connected = connect(*session, agreed.options, std::move(reach), infos);

  std::vector<Place> places;
  for (const RankInfo& info : infos) places.push_back(info.place);
  planner::Policy policy = policyOf(*session, agreed, connected, places);
  const bool crowded = oversubscribed(places, places[static_cast<std::size_t>(session->rank())]);
  auto engine = makeEngine(*session, agreed.options, connected, crowded);
  return {std::move(session), std::move(agreed.options),
          std::move(policy),  std::move(connected.fabric),
          std::move(engine),  crowded,
          std::move(places)};
}

} // namespace

std::shared_ptr<CommunicatorImpl> CommunicatorImpl::open(
    std::unique_ptr<bootstrap::Session> session, const Options& options, Inherited inherited) {
  const base::LogRank in_log(session->rank());
  // Not make_shared(): its memory would live as long as the Works of its calls.
  std::shared_ptr<CommunicatorImpl> impl(
      new CommunicatorImpl(assemble(std::move(session), options, inherited.rules.get())));
  impl->listen(std::move(inherited.trace));
  Communicators::add(impl);
  return impl;
}

} // namespace rondo::comm
