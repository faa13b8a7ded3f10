// Opens the module that is linked with OpenSSL's libssl, when TLS is first needed.
#pragma once

#include <memory>
#include <string>

#include "net/hmac.h"
#include "net/tls/module.h"

namespace rondo::net {

using tls::Tls;

/// Why this process cannot use TLS, and what to install; empty if it can. Any thread.
std::string tlsMissing();

/// Throws Error(unsupported) with `what` and tlsMissing() if this process cannot use TLS.
void requireTls(const std::string& what);

/// Makes one side of TLS on a connected socket, which must outlive it. `key`: only the two sides of
/// this connection have it. Call handshake() next. Throws Error(unsupported) if this process cannot
/// use TLS, and Error(system) if libssl fails.
std::unique_ptr<Tls> makeTls(int fd, bool dials, const Key& key,
                             std::uint64_t records_per_key = tls::kRecordsPerKey);

} // namespace rondo::net
