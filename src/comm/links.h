// Chooses the transport to each peer.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/session.h"
#include "engine/fabric.h"
#include "rondo/options.h"
#include "transports/registry.h"

namespace rondo::comm {

using Transports = std::vector<std::unique_ptr<transport::Transport>>;
/// One rank's addresses, with the transports' names.
using Addresses = std::vector<std::pair<std::string, transport::Address>>;
/// By peer: the transports that do not work, although they claim to reach it.
using Broken = std::vector<std::set<std::string>>;

/// Facts about this rank's links.
struct Links {
  std::vector<bool> apart; ///< by peer: on another node, so no shared memory
  Broken broken;
  bool network_channels = false; ///< some links are over a network; equal on all ranks
};

/// Makes the transports that Options::transports allows. Without a device: those between host
/// memories. With a device: those between devices, followed by those over a network, between host
/// memories. Throws Error(invalid_argument) for an unknown name.
Transports makeTransports(const bootstrap::Session& session, Options options,
                          const transport::DeviceContext& on, const Links& links);

Addresses addressesOf(const Transports& transports);

/// Picks the first transport that both ranks have and that reaches the peer, is not broken, and
/// shares no memory across nodes. Throws Error(init_failed) if there is none.
engine::Fabric::Peer connectPeer(const Transports& transports, const Addresses& addresses, int peer,
                                 const Links& links);

/// Collective: returns whether `here` is true on any rank.
bool anybody(bootstrap::Session& session, bool here, std::chrono::milliseconds limit);

/// Collective, between devices. Opens a small channel in each direction to every peer; kernels
/// store at each end and load at the other. If that fails, the transport is marked as broken on
/// both ranks, the reason is logged, and the next transport is tried. Network channels are not
/// tested.
void proveLinks(bootstrap::Session& session, const Options& options,
                const transport::DeviceContext& on, Links& links);

} // namespace rondo::comm
