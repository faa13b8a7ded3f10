// Serves one page over HTTP, to clients that are not trusted.
#pragma once

#include <chrono>
#include <list>
#include <string>

#include "tools/descriptor.h"

namespace rondo::tools {

/// A client gets two seconds and 4 KiB for its request. At most 64 clients are served at a time; a
/// new one takes the place of the oldest, so that idle ones keep no scraper away.
class PageServer {
 public:
  /// `address`: "[HOST:]PORT"; without a host, loopback. Port 0: a free one. Throws
  /// Error(invalid_argument), or Error(system) if it cannot listen.
  explicit PageServer(const std::string& address);

  /// "127.0.0.1:9400".
  const std::string& address() const { return address_; }
  /// Answers GET /metrics with `page` until `end`.
  void serve(const std::string& page, std::chrono::steady_clock::time_point end);

 private:
  struct Client {
    Descriptor socket;
    std::chrono::steady_clock::time_point end;
    std::string request, answer;
    std::size_t sent = 0;
  };

  void accept();
  /// False: the connection is done with.
  bool progress(Client& client, const std::string& page);
  bool send(Client& client);

  Descriptor listener_;
  std::string address_;
  std::list<Client> clients_; ///< the oldest first
};

} // namespace rondo::tools
