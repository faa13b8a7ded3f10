// Making a communicator: what the ranks must agree on before the first call.
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cstring>
#include <fstream>

#include "base/codec.h"
#include "base/log.h"
#include "comm/communicator_impl.h"
#include "comm/devices.h"
#include "comm/links.h"
#include "engine/device_engine.h"
#include "engine/host_engine.h"
#include "plan/layout.h"
#include "plan/registry.h"
#include "rondo/error.h"

namespace rondo::comm {

namespace {

constexpr std::size_t kMaxText = 4096;

/// Largest message where no transport bounds it: of a single rank, to itself.
constexpr std::size_t kSelfSlotBytes = 256 << 10;

/// Where a rank runs, for knowing whether ranks outnumber processors.
struct Place {
  std::string machine;
  std::array<std::byte, sizeof(cpu_set_t)> processors{};
};

Place ownPlace() {
  Place place;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::getline(boot, place.machine);
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    std::memcpy(place.processors.data(), &set, sizeof set);
  return place;
}

/// What every rank tells the others.
struct Card {
  Place place;
  std::size_t slot_bytes = 0;
  Addresses addresses;

  std::vector<std::byte> encode() const {
    base::Writer out;
    out.text(place.machine);
    out.raw(place.processors);
    out.u64(slot_bytes);
    out.u32(static_cast<std::uint32_t>(addresses.size()));
    for (const auto& [kind, address] : addresses) {
      out.text(kind);
      out.blob(address);
    }
    return out.take();
  }

  static Card decode(std::span<const std::byte> bytes) {
    base::Reader in(bytes, "a rank's address card");
    Card card;
    card.place.machine = in.text(kMaxText);
    in.raw(std::span<std::byte>(card.place.processors));
    card.slot_bytes = in.u64();
    for (std::uint32_t left = in.u32(); left > 0; --left) {
      std::string kind = in.text(64);
      const auto address = in.blob(transport::kMostAddressBytes);
      card.addresses.emplace_back(std::move(kind),
                                  transport::Address(address.begin(), address.end()));
    }
    in.finish();
    return card;
  }
};

struct Agreed {
  Options options;                ///< rank 0's where all must have the same
  std::vector<int> devices;       ///< every rank's
  std::vector<std::string> nodes; ///< every rank's
};

/// What ranks have in common that may share memory: the machine, and the network namespace that
/// transports between processes meet in.
std::string ownNode(const Options& options) {
  if (!options.node.empty()) return options.node;
  struct stat network {};
  const bool known = ::stat("/proc/self/ns/net", &network) == 0;
  return ownPlace().machine + (known ? "/" + std::to_string(network.st_ino) : "");
}

Agreed agree(bootstrap::Session& session, Options options) {
  base::Writer out;
  out.text(options.algorithm);
  out.u8(options.deterministic);
  out.u64(options.channel_bytes);
  out.i32(options.channel_depth);
  out.i32(options.device);
  out.text(ownNode(options));
  const auto blobs = session.allGather(out.bytes(), options.init_timeout);
  Agreed agreed;
  for (std::size_t r = 0; r < blobs.size(); ++r) {
    base::Reader in(blobs[r], "a rank's settings");
    Options theirs;
    theirs.algorithm = in.text(kMaxText);
    theirs.deterministic = in.u8() != 0;
    theirs.channel_bytes = in.u64();
    theirs.channel_depth = in.i32();
    agreed.devices.push_back(in.i32());
    agreed.nodes.push_back(in.text(Options::kLongestNode));
    in.finish();
    if (r > 0) continue;
    options.algorithm = theirs.algorithm;
    options.deterministic = theirs.deterministic;
    options.channel_bytes = theirs.channel_bytes;
    options.channel_depth = theirs.channel_depth;
  }
  // A slot must hold one element of every rank, or the smallest tile would not fit a message.
  if (options.channel_bytes > 0) {
    const auto depth =
        static_cast<std::size_t>(options.channel_depth > 0 ? options.channel_depth : 8);
    options.channel_bytes = std::max(options.channel_bytes,
                                     depth * (8 * static_cast<std::size_t>(session.size()) + 64));
  }
  agreed.options = std::move(options);
  return agreed;
}

/// Where all ranks are, as all of them see it. Without levels if they share one node.
plan::Layout layoutOf(const std::vector<std::string>& nodes) {
  plan::Layout layout;
  layout.groups.push_back(plan::numbered(nodes));
  if (layout.nodes().size() == 1) return {};
  base::log(LogLevel::info, "the ranks' nodes: ", text(layout));
  return layout;
}

Links knownLinks(const std::vector<std::string>& nodes, int own) {
  Links links{.apart = {}, .broken = Broken(nodes.size())};
  for (const std::string& node : nodes)
    links.apart.push_back(node != nodes[static_cast<std::size_t>(own)]);
  return links;
}

/// Whether the ranks of this machine outnumber the processors that they may use.
bool crowded(const std::vector<Card>& cards, const Place& own) {
  std::array<std::byte, sizeof(cpu_set_t)> all{};
  std::size_t ranks = 0;
  for (const Card& card : cards) {
    if (card.place.machine != own.machine) continue;
    ++ranks;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] |= card.place.processors[i];
  }
  std::size_t processors = 0;
  for (std::byte byte : all) processors += std::bitset<8>(std::to_integer<unsigned>(byte)).count();
  return ranks > std::max<std::size_t>(processors, 1);
}

/// Of the ranks that meet in process.
std::shared_ptr<engine::StreamUsers> streamUsers(const bootstrap::Session& session) {
  if (!session.board()) return nullptr;
  return session.board()->findOrMake<engine::StreamUsers>(
      "streams of " + std::to_string(session.communicator()),
      [] { return std::make_shared<engine::StreamUsers>(); });
}

std::unique_ptr<engine::Engine> makeEngine(const Devices& devices, engine::Fabric& fabric,
                                           const bootstrap::Session& session,
                                           const Options& options, bool crowded) {
  if (!devices.own) return std::make_unique<engine::HostEngine>(fabric, options.threads, crowded);
  return std::make_unique<engine::DeviceEngine>(
      devices.own, fabric,
      engine::DeviceEngine::Settings{session.rank(), session.size(), devices.channel,
                                     devices.residency, options.timeout, &session.failedWord(),
                                     devices.neighbour, devices.lends, streamUsers(session)});
}

} // namespace

std::shared_ptr<CommunicatorImpl> CommunicatorImpl::open(
    std::unique_ptr<bootstrap::Session> session, const Options& given) {
  const base::LogRank in_log(session->rank());
  const auto [options, numbers, nodes] = agree(*session, given);
  for (Collective collective : kCollectives)
    if (collective != Collective::sendrecv) plan::parseAlgorithms(options.algorithm, collective);

  Devices devices = meetDevices(*session, options, numbers);
  Links links = knownLinks(nodes, session->rank());
  if (devices.own) proveLinks(*session, options, devices.context(), links);
  if (links.streams) devices.channel.limitToStreams(devices.size.slot_bytes);
  Transports transports = makeTransports(*session, options, devices.context(), links);
  Card own;
  own.place = ownPlace();
  own.slot_bytes = transports.empty() ? kSelfSlotBytes : transports[0]->slotBytes();
  for (const auto& transport : transports)
    own.slot_bytes = std::min(own.slot_bytes, transport->slotBytes());
  own.addresses = addressesOf(transports);
  std::vector<Card> cards;
  for (const auto& blob : session->allGather(own.encode(), options.init_timeout))
    cards.push_back(Card::decode(blob));

  std::vector<engine::Fabric::Peer> peers(cards.size());
  std::size_t message_bytes = own.slot_bytes;
  for (std::size_t r = 0; r < cards.size(); ++r) {
    message_bytes = std::min(message_bytes, cards[r].slot_bytes);
    const int rank = static_cast<int>(r);
    if (rank != session->rank())
      peers[r] = connectPeer(transports, cards[r].addresses, rank, links);
  }
  bool streams_here = false;
  for (const auto& peer : peers) streams_here |= peer.transport && !peer.transport->mapped();
  const bool streams = anybody(*session, streams_here, options.init_timeout);
  const bool apart = std::any_of(peers.begin(), peers.end(), [](const auto& peer) {
    return peer.transport && !peer.transport->seesDevices();
  });
  if (devices.own && anybody(*session, apart, options.init_timeout)) devices.lends = false;
  for (std::size_t r = 0; r < peers.size(); ++r)
    if (peers[r].transport)
      base::log(LogLevel::info, "rank ", r, " is reached by ", peers[r].transport->name());
  auto fabric = std::make_unique<engine::Fabric>(session->rank(), session->communicator(),
                                                 std::move(transports), std::move(peers),
                                                 message_bytes, streams);
  // The same answer on all ranks: any machine counts.
  const bool any_crowded = std::any_of(
      cards.begin(), cards.end(), [&](const Card& card) { return crowded(cards, card.place); });
  const bool take_turns = any_crowded && !devices.own; // on devices nobody does
  const planner::Policy policy{options.algorithm, options.deterministic,  take_turns,
                               streams,           devices.own != nullptr, layoutOf(nodes)};
  const bool here_crowded = crowded(cards, own.place);
  auto engine = makeEngine(devices, *fabric, *session, options, here_crowded);
  return {new CommunicatorImpl(std::move(session), options, policy, std::move(fabric),
                               std::move(engine), here_crowded),
          &CommunicatorImpl::release};
}

} // namespace rondo::comm
