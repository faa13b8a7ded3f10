// Opens a communicator: the ranks agree on everything that they need before the first call.
#include <algorithm>
#include <atomic>

#include "base/codec.h"
#include "base/log.h"
#include "comm/binding.h"
#include "comm/communicator_impl.h"
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

constexpr std::size_t kMaxText = 4096;

/// Largest message if no transport limits it: a single rank has none.
constexpr std::size_t kSelfSlotBytes = 256 << 10;

/// What each rank sends to all others.
struct RankInfo {
  Place place;
  std::size_t slot_bytes = 0;
  Addresses addresses;

  std::vector<std::byte> encode() const {
    base::Writer out;
    topology::write(out, place);
    out.u64(slot_bytes);
    out.u32(static_cast<std::uint32_t>(addresses.size()));
    for (const auto& [kind, address] : addresses) {
      out.text(kind);
      out.blob(address);
    }
    return out.take();
  }

  static RankInfo decode(std::span<const std::byte> bytes) {
    base::Reader in(bytes, "a rank's address info");
    RankInfo info;
    info.place = topology::readPlace(in);
    info.slot_bytes = in.u64();
    for (std::uint32_t left = in.u32(); left > 0; --left) {
      std::string kind = in.text(64);
      const auto address = in.blob(transport::kMostAddressBytes);
      info.addresses.emplace_back(std::move(kind),
                                  transport::Address(address.begin(), address.end()));
    }
    in.finish();
    return info;
  }
};

struct Agreed {
  Options options;                ///< rank 0's values for the settings that must be equal
  std::vector<int> devices;       ///< of every rank
  std::vector<std::string> nodes; ///< of every rank
  std::vector<Unbound> unbound;   ///< of every rank
};

Agreed agree(bootstrap::Session& session, Options options) {
  base::Writer out;
  out.u64(options.channel_bytes);
  out.text(options.algorithm);
  out.text(options.planner);
  out.u8(options.deterministic);
  out.u8(options.checksum);
  out.i32(options.channel_depth);
  out.i32(options.device);
  out.text(options.trace_folder);
  out.text(topology::nodeName(options.node));
  Unbound::own().write(out);
  const auto blobs = session.allGather(out.bytes(), options.init_timeout);
  Agreed agreed;
  for (std::size_t r = 0; r < blobs.size(); ++r) {
    base::Reader in(blobs[r], "a rank's settings");
    Options theirs;
    theirs.channel_bytes = in.u64();
    theirs.algorithm = in.text(kMaxText);
    theirs.planner = in.text(kMaxText);
    theirs.deterministic = in.u8() != 0;
    theirs.checksum = in.u8() != 0;
    theirs.channel_depth = in.i32();
    agreed.devices.push_back(in.i32());
    theirs.trace_folder = in.text(kMaxText);
    agreed.nodes.push_back(in.text(Options::kLongestNode));
    agreed.unbound.push_back(Unbound::read(in));
    in.finish();
    if (r > 0) continue;
    options.algorithm = theirs.algorithm;
    options.planner = theirs.planner;
    options.deterministic = theirs.deterministic;
    options.checksum = theirs.checksum;
    options.channel_bytes = theirs.channel_bytes;
    options.channel_depth = theirs.channel_depth;
    options.trace_folder = theirs.trace_folder;
  }
  // A slot must hold one element per rank, otherwise the smallest tile does not fit in a message.
  if (options.channel_bytes > 0) {
    const auto depth =
        static_cast<std::size_t>(options.channel_depth > 0 ? options.channel_depth : 8);
    options.channel_bytes = std::max(options.channel_bytes,
                                     depth * (8 * static_cast<std::size_t>(session.size()) + 64));
  }
  agreed.options = std::move(options);
  return agreed;
}

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

/// Throws Error(invalid_argument). Warns about ignored words of NCCL_ALGO, once per process, since
/// programs make many communicators.
void checkAlgorithms(const std::string& text) {
  for (Collective collective : kCollectives)
    if (collective != Collective::sendrecv) plan::parseAlgorithms(text, collective);
  static std::atomic<bool> said{false};
  if (!plan::isWish(text) || !base::logs(LogLevel::warn)) return;
  const std::string words = plan::passedOver(text);
  if (!words.empty() && !said.exchange(true))
    base::log(LogLevel::warn, "in NCCL_ALGO=", text.substr(1), " these words are ignored: ", words);
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

std::vector<engine::Fabric::Peer> connectPeers(const Transports& transports,
                                               const std::vector<RankInfo>& infos, int own,
                                               const Links& links) {
  std::vector<engine::Fabric::Peer> peers(infos.size());
  for (std::size_t r = 0; r < infos.size(); ++r) {
    if (static_cast<int>(r) == own) continue;
    peers[r] = connectPeer(transports, infos[r].addresses, static_cast<int>(r), links);
    base::log(LogLevel::info, "rank ", r, " is reached by ", peers[r].transport->name());
  }
  return peers;
}

std::unique_ptr<engine::Engine> makeEngine(const Devices& devices, engine::Fabric& fabric,
                                           const bootstrap::Session& session,
                                           const Options& options, bool oversubscribed) {
  if (!devices.own)
    return std::make_unique<engine::HostEngine>(
        fabric, engine::HostEngine::Settings{options.threads, oversubscribed, options.checksum});
  return std::make_unique<engine::DeviceEngine>(
      devices.own, fabric,
      engine::DeviceEngine::Settings{
          session.rank(), session.size(), devices.channel, devices.residency, options.timeout,
          &session.failedWord(), devices.neighbour, devices.lends,
          sharedOf<engine::StreamUsers>(session, "streams"),
          devices.lends ? sharedOf<engine::LaunchRoster>(session, "launches") : nullptr,
          devices.window});
}

} // namespace

std::shared_ptr<CommunicatorImpl> CommunicatorImpl::open(
    std::unique_ptr<bootstrap::Session> session, const Options& options,
    std::shared_ptr<observe::Trace> trace) {
  std::shared_ptr<CommunicatorImpl> impl = make(std::move(session), options);
  impl->listen(std::move(trace));
  return impl;
}

std::shared_ptr<CommunicatorImpl> CommunicatorImpl::make(
    std::unique_ptr<bootstrap::Session> session, const Options& given) {
  const base::LogRank in_log(session->rank());
  const auto [options, numbers, nodes, unbound] = agree(*session, given);
  bindRank(options.bind, unbound, session->rank());
  checkAlgorithms(options.algorithm);

  Devices devices = meetDevices(*session, options, numbers);
  Links links = knownLinks(nodes, session->rank());
  if (devices.own) proveLinks(*session, options, devices.context(), links);
  if (links.carriers) devices.channel.limitToCarriers(devices.size.slot_bytes);
  Transports transports = makeTransports(*session, options, devices.context(), links);
  RankInfo own;
  own.place = topology::ownPlace(nodes[static_cast<std::size_t>(session->rank())]);
  base::log(LogLevel::info, "runs on ", topology::text(own.place));
  own.slot_bytes = transports.empty() ? kSelfSlotBytes : transports[0]->slotBytes();
  for (const auto& transport : transports)
    own.slot_bytes = std::min(own.slot_bytes, transport->slotBytes());
  own.addresses = addressesOf(transports);
  std::vector<RankInfo> infos;
  for (const auto& blob : session->allGather(own.encode(), options.init_timeout))
    infos.push_back(RankInfo::decode(blob));

  std::vector<Place> places;
  for (const RankInfo& info : infos) places.push_back(info.place);
  std::size_t message_bytes = own.slot_bytes;
  for (const RankInfo& info : infos) message_bytes = std::min(message_bytes, info.slot_bytes);
  auto peers = connectPeers(transports, infos, session->rank(), links);
  bool carriers_here = false;
  for (const auto& peer : peers) carriers_here |= peer.transport && !peer.transport->mapped();
  const bool carriers = anybody(*session, carriers_here, options.init_timeout);
  const bool apart = std::any_of(peers.begin(), peers.end(), [](const auto& peer) {
    return peer.transport && !peer.transport->seesDevices();
  });
  if (devices.own && anybody(*session, apart, options.init_timeout)) devices.lends = false;
  auto fabric = std::make_unique<engine::Fabric>(session->rank(), session->communicator(),
                                                 std::move(transports), std::move(peers),
                                                 message_bytes, carriers);
  // Must be equal on all ranks, so one oversubscribed machine is enough.
  const bool any_oversubscribed =
      std::any_of(places.begin(), places.end(),
                  [&](const Place& place) { return oversubscribed(places, place); });
  const bool take_turns = any_oversubscribed && !devices.own; // on devices no rank takes turns
  planner::Policy policy{.algorithms = options.algorithm,
                         .deterministic = options.deterministic,
                         .oversubscribed = take_turns,
                         .carriers = carriers,
                         .devices = devices.own != nullptr,
                         .layout = layoutOf(places),
                         .multicast = devices.switched(),
                         .site = siteOf(*fabric, places, session->rank(),
                                        processorsOf(places, own.place), message_bytes)};
  policy.table = agreeOnTable(*session, options, policy);
  const bool here_oversubscribed = oversubscribed(places, own.place);
  auto engine = makeEngine(devices, *fabric, *session, options, here_oversubscribed);
  return {new CommunicatorImpl(std::move(session), options, policy, std::move(fabric),
                               std::move(engine), here_oversubscribed, std::move(places)),
          &CommunicatorImpl::release};
}

} // namespace rondo::comm
