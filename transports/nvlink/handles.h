// Passes descriptors over a connected Unix socket, one at a time.
#pragma once

#include <optional>

#include "base/unique_fd.h"

namespace rondo::transport::nvlink {

/// Sends a descriptor; the receiver gets a duplicate. Throws Error(transport).
void sendHandle(int socket, int handle);
/// Receives a descriptor; nullopt if none has arrived. Throws Error(transport), also if the peer
/// has closed the connection.
std::optional<base::UniqueFd> receiveHandle(int socket);

} // namespace rondo::transport::nvlink
