// Which transport leads to which rank.
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
/// Of one rank: by the transports' names.
using Addresses = std::vector<std::pair<std::string, transport::Address>>;
/// By rank: transports that do not work to it, whatever they say.
using Broken = std::vector<std::set<std::string>>;

/// What is known of a rank's links.
struct Links {
  std::vector<bool> apart; ///< by rank: on another node, so that no memory is shared
  Broken broken;
  bool carriers = false; ///< some ranks have nothing else; the same on all ranks
};

/// Those that Options::transports allows, between host memories; or those between devices, and
/// behind them the carriers between host memories. Throws Error(invalid_argument) for a name that
/// no transport has.
Transports makeTransports(const bootstrap::Session& session, Options options,
                          const transport::DeviceContext& on, const Links& links);

Addresses addressesOf(const Transports& transports);

/// The first transport that both ranks have, that reaches the peer, shares no memory with another
/// node, and is not broken. Throws Error(init_failed).
engine::Fabric::Peer connectPeer(const Transports& transports, const Addresses& addresses, int peer,
                                 const Links& links);

/// Collective: whether `here` is true on any rank.
bool anybody(bootstrap::Session& session, bool here, std::chrono::milliseconds limit);

/// Collective, between devices: opens a small channel each way to every peer, stores from either
/// end and loads at the other, by kernels. Where that fails the transport is broken for both ranks,
/// the reason is logged, and the next one is tried. Carriers are taken as they are.
void proveLinks(bootstrap::Session& session, const Options& options,
                const transport::DeviceContext& on, Links& links);

} // namespace rondo::comm
