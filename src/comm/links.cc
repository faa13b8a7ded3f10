// Chooses transports, and tests those between devices.
#include "comm/links.h"

#include <algorithm>
#include <thread>

#include "base/codec.h"
#include "base/log.h"
#include "base/parse.h"
#include "rondo/error.h"

namespace rondo::comm {

namespace {

constexpr std::size_t kMaxName = 64;
constexpr std::size_t kMaxReason = 512;
constexpr std::chrono::microseconds kLook{50};

/// A channel index that no plan uses.
constexpr int kProbe = transport::ChannelId::kPointToPoint - 1;
constexpr std::size_t kProbeBytes = 256;

/// The words that the test from rank `src` to `dst` writes into the inbox, or the credit.
device::ProbeWords pattern(int src, int dst, bool inbox) {
  device::ProbeWords words{};
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = (static_cast<std::uint64_t>(src) << 40 | static_cast<std::uint64_t>(dst) << 16 |
                i << 8 | (inbox ? 0x5a : 0xa5)) ^
               0x123456789abcdef0u;
  return words;
}

/// One end of a channel that exists only to test the transport.
class LinkTest {
 public:
  LinkTest(device::Device& device, const transport::ChannelId& id, bool sends,
           const engine::Fabric::Peer& peer)
      : device_(device), id_(id), sends_(sends), transport_(peer.transport->name()) {
    attempt([&] { pending_ = peer.transport->open(id, peer.address); });
  }

  int peer() const { return sends_ ? id_.dst : id_.src; }
  const std::string& transport() const { return transport_; }
  const std::string& wrong() const { return wrong_; }

  /// Whether the channel is open or has failed.
  bool settled() {
    if (pending_ && !port_) attempt([this] { port_ = pending_->poll(); });
    return port_ || !wrong_.empty();
  }
  void giveUp(const std::string& why) { wrong_ = why; }
  void write() {
    if (!wrong_.empty()) return;
    attempt([this] { device_.store(part(sends_), pattern(id_.src, id_.dst, sends_)); });
  }
  void read() {
    if (!wrong_.empty()) return;
    attempt([this] {
      if (device_.load(part(!sends_)) != pattern(id_.src, id_.dst, !sends_))
        wrong_ = "the peer's words did not arrive in this device's memory";
    });
  }

 private:
  std::byte* part(bool inbox) const {
    const auto& memory = std::get<transport::DeviceMemory>(port_->path);
    return inbox ? memory.inbox.get() : memory.credit.get();
  }
  template <class Body>
  void attempt(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      wrong_ = error.what();
    }
  }

  device::Device& device_;
  const transport::ChannelId id_;
  const bool sends_;
  const std::string transport_;
  std::unique_ptr<transport::PendingPort> pending_;
  std::unique_ptr<transport::Port> port_;
  std::string wrong_;
};

void await(std::vector<std::unique_ptr<LinkTest>>& tests, const bootstrap::Session& session,
           std::chrono::milliseconds limit) {
  const base::Deadline deadline(limit);
  const auto allSettled = [&tests] {
    bool all = true;
    for (auto& test : tests) all &= test->settled(); // polls each: peers wait for all of them
    return all;
  };
  while (!allSettled()) {
    if (session.failedWord().load(std::memory_order_acquire) != 0) return;
    if (deadline.passed())
      for (auto& test : tests)
        if (!test->settled()) test->giveUp("the peer did not open its end in time");
    std::this_thread::sleep_for(kLook);
  }
}

std::vector<Addresses> exchange(bootstrap::Session& session, const Transports& transports,
                                std::chrono::milliseconds limit) {
  base::Writer out;
  const Addresses own = addressesOf(transports);
  out.u32(static_cast<std::uint32_t>(own.size()));
  for (const auto& [name, address] : own) {
    out.text(name);
    out.blob(address);
  }
  std::vector<Addresses> all;
  for (const auto& blob : session.allGather(out.bytes(), limit)) {
    base::Reader in(blob, "a rank's test addresses");
    Addresses& theirs = all.emplace_back();
    for (std::uint32_t left = in.u32(); left > 0; --left) {
      std::string name = in.text(kMaxName);
      const auto address = in.blob(transport::kMostAddressBytes);
      theirs.emplace_back(std::move(name), transport::Address(address.begin(), address.end()));
    }
  }
  return all;
}

/// Exchanges the failures of all ranks, and adds those of this rank's links to `broken`. Returns
/// whether any rank had a failure.
bool tell(bootstrap::Session& session, const std::vector<std::unique_ptr<LinkTest>>& tests,
          std::chrono::milliseconds limit, Broken& broken) {
  base::Writer out;
  for (const auto& test : tests) {
    if (test->wrong().empty()) continue;
    out.i32(test->peer());
    out.text(test->transport());
    out.text(test->wrong().substr(0, kMaxReason));
    if (out.bytes().size() > (8 << 10)) break; // the next round reports the rest
  }
  bool any = false;
  const auto blobs = session.allGather(out.bytes(), limit);
  for (std::size_t r = 0; r < blobs.size(); ++r) {
    const int rank = static_cast<int>(r);
    base::Reader in(blobs[r], "a rank's broken links");
    while (in.left() > 0) {
      any = true;
      const int peer = in.i32();
      const std::string name = in.text(kMaxName), why = in.text(kMaxReason);
      if (rank != session.rank() && peer != session.rank()) continue;
      const int other = rank == session.rank() ? peer : rank;
      if (other >= 0 && other < session.size() &&
          broken[static_cast<std::size_t>(other)].insert(name).second)
        base::log(LogLevel::warn, name, " to rank ", other, " is not used: ", why);
    }
  }
  return any;
}

} // namespace

Transports makeTransports(const bootstrap::Session& session, Options options,
                          const transport::DeviceContext& on, const Links& links) {
  // A peer may enter its call late. The call's own deadline gives the better error, so a connection
  // waits longer.
  options.init_timeout += options.timeout;
  const transport::Context context{session.communicator(), session.job(),    session.rank(),
                                   session.size(),         session.secret(), session.bindAddress(),
                                   session.board(),        options,          on};
  const auto filter = base::NameFilter::parse(options.transports, "RONDO_TRANSPORT");
  std::vector<std::string> valid;
  for (const auto& kinds : {transport::deviceKinds(), transport::kinds()})
    for (const transport::Kind& kind : kinds) valid.emplace_back(kind.name);
  for (const std::string& word : filter.names)
    if (std::find(valid.begin(), valid.end(), word) == valid.end())
      throw Error(ErrorCode::invalid_argument, "RONDO_TRANSPORT: no transport is called " +
                                                   base::quoted(word) + " (there are " +
                                                   base::join(valid, ", ") + ")");
  const bool together =
      std::find(links.apart.begin(), links.apart.end(), true) == links.apart.end();
  Transports made;
  const auto add = [&](std::span<const transport::Kind> kinds, bool only_network) {
    for (const transport::Kind& kind : kinds) {
      if (!filter.allows(kind.name)) continue;
      auto one = kind.make(context);
      if (!one || (only_network && one->mapped())) continue;
      made.push_back(std::move(one));
      // Threads of one process need no listeners of the transports that follow.
      if (!only_network && session.board() && !kind.between_processes && together) return;
    }
  };
  if (on.device) add(transport::deviceKinds(), false);
  add(transport::kinds(), on.device != nullptr);
  return made;
}

bool anybody(bootstrap::Session& session, bool here, std::chrono::milliseconds limit) {
  base::Writer out;
  out.u8(here);
  bool any = false;
  for (const auto& blob : session.allGather(out.bytes(), limit))
    any |= base::Reader(blob, "a rank's links").u8() != 0;
  return any;
}

Addresses addressesOf(const Transports& transports) {
  Addresses addresses;
  for (const auto& transport : transports) {
    transport::Address address = transport->address();
    if (address.size() > transport::kMostAddressBytes)
      throw Error(ErrorCode::unsupported, std::string(transport->name()) + ": an address of " +
                                              std::to_string(address.size()) + " bytes; at most " +
                                              std::to_string(transport::kMostAddressBytes) +
                                              " are allowed");
    addresses.emplace_back(transport->name(), std::move(address));
  }
  return addresses;
}

engine::Fabric::Peer connectPeer(const Transports& transports, const Addresses& addresses, int peer,
                                 const Links& links) {
  const auto& not_these = links.broken[static_cast<std::size_t>(peer)];
  const bool apart = links.apart[static_cast<std::size_t>(peer)];
  for (const auto& transport : transports)
    for (const auto& [name, address] : addresses)
      if (name == transport->name() && !not_these.contains(name) &&
          !(apart && transport->mapped()) && transport->reaches(address))
        return {transport.get(), address};
  throw Error(ErrorCode::init_failed,
              "no transport that both ranks may use reaches rank " + std::to_string(peer), peer);
}

void proveLinks(bootstrap::Session& session, const Options& options,
                const transport::DeviceContext& on, Links& links) {
  transport::DeviceContext small = on;
  small.inbox_bytes = small.credit_bytes = kProbeBytes;
  const Transports transports = makeTransports(session, options, small, links);
  const auto addresses = exchange(session, transports, options.init_timeout);
  const int own = session.rank();
  for (std::size_t round = 0; round <= transports.size(); ++round) {
    std::vector<std::unique_ptr<LinkTest>> tests;
    bool network_channels = false;
    for (int peer = 0; peer < session.size(); ++peer) {
      if (peer == own) continue;
      const auto to =
          connectPeer(transports, addresses[static_cast<std::size_t>(peer)], peer, links);
      if (!to.transport->mapped()) {
        network_channels = true;
        continue;
      }
      const int index = kProbe - static_cast<int>(round); // a channel can be opened only once
      for (const bool sends : {true, false})
        tests.push_back(std::make_unique<LinkTest>(
            *on.device,
            transport::ChannelId{session.communicator(), sends ? own : peer, sends ? peer : own,
                                 index},
            sends, to));
    }
    await(tests, session, options.init_timeout);
    for (auto& test : tests) test->write();
    // This exchange is also a barrier: after it, all ranks have written.
    links.network_channels = anybody(session, network_channels, options.init_timeout);
    for (auto& test : tests) test->read();
    if (!tell(session, tests, options.init_timeout, links.broken)) return;
  }
  throw Error(ErrorCode::init_failed,
              "no transport works on all links between the devices; the log names the failures");
}

} // namespace rondo::comm
