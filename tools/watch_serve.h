// Serves one page over HTTP, to clients that are not trusted.
#pragma once

#include <chrono>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "tools/descriptor.h"

namespace rondo::tools {

/// A client gets two seconds and 4 KiB for its request. At most 64 clients are served at a time; a
/// new one takes the place of the oldest, so that idle ones keep no scraper away. A thread serves,
/// so that no client waits until the next page is ready.
class PageServer {
 public:
  /// `address`: "[HOST:]PORT"; without a host, loopback. Port 0: a free one. Throws
  /// Error(invalid_argument), or Error(system) if it cannot listen.
  explicit PageServer(const std::string& address);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  /// "127.0.0.1:9400".
  const std::string& address() const { return address_; }
  /// From now on GET /metrics is answered with `page`. Clients that come before the first page
  /// wait.
  void show(std::string page);

 private:
  struct Client {
    Descriptor socket;
    std::chrono::steady_clock::time_point end;
    std::string request, answer;
    std::size_t sent = 0;
  };

  void serve();
  void accept();
  /// False: the connection is done with.
  bool progress(Client& client);
  bool send(Client& client);

  Descriptor listener_;
  std::string address_;
  std::pair<Descriptor, Descriptor> stop_ = makePipe(); ///< ends the thread when it is closed
  std::list<Client> clients_;                           ///< the oldest first; of the thread
  std::mutex mutex_;
  std::string page_; ///< guarded by mutex_
  std::thread thread_;
};

} // namespace rondo::tools
