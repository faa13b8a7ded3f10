// The ends of a channel as the engine has them.
#pragma once

#include <memory>

#include "transports/ucx/channels.h"

namespace rondo::transport::ucx {

/// Starts to open this rank's end. Throws Error(transport) when UCX does not reach the peer.
std::unique_ptr<PendingPort> openEnd(const std::shared_ptr<Channels>& channels,
                                     const Context& context, const ChannelId& id, ChannelSize size,
                                     std::span<const std::byte> address);

} // namespace rondo::transport::ucx
