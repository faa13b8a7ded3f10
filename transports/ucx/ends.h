// Opens the ends of a UCX channel.
#pragma once

#include <memory>

#include "transports/ucx/channels.h"

namespace rondo::transport::ucx {

/// Starts to open this rank's end. Throws Error(transport) if UCX cannot reach the peer.
std::unique_ptr<PendingPort> openEnd(const std::shared_ptr<Channels>& channels,
                                     const Context& context, const ChannelId& id, ChannelSize size,
                                     std::span<const std::byte> address);

} // namespace rondo::transport::ucx
