// Descriptors over a connected Unix socket, one at a time.
#pragma once

#include <optional>

#include "base/unique_fd.h"

namespace rondo::transport::nvlink {

/// The receiver gets a duplicate. Throws Error(transport).
void sendHandle(int socket, int handle);
/// Nothing while none has come. Throws Error(transport), also when the peer has gone away.
std::optional<base::UniqueFd> receiveHandle(int socket);

} // namespace rondo::transport::nvlink
