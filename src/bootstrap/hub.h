// Where the ranks of a job meet, and who watches over them afterwards.
//
// One process hosts the hub: the one that made the unique id, or rank 0. Every rank keeps one
// control connection to it. The hub collects exchanges, decides which failure of a communicator was
// the first, completes timeouts with who is late, and notices ranks that die (their connection ends
// without a farewell) or fall silent (no heartbeat for three of theirs). When its process ends in
// good order while others go on, another rank's process takes its place.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "net/connection.h"

namespace rondo::bootstrap {

class Hub {
 public:
  /// Of a hub that takes over a job whose hub ended.
  struct Succession {
    int host = -1;              ///< the rank whose process it is in
    std::vector<bool> expected; ///< by rank: those that are still there
  };
  struct Settings {
    net::SocketAddress address; ///< port 0: any
    net::Secret secret;
    std::uint64_t job = 0; ///< that hellos must name
    int size = 0;          ///< of the job; 0: not known, the first complete set of ranks makes it
    std::optional<Succession> succession;
  };

  /// Most ranks of a job: bounds what a member of the job can make the hub allocate.
  static constexpr int kMostRanks = 1 << 16;

  /// `over` is called on the loop thread when all ranks have come and gone. Throws what
  /// net::Acceptor does.
  Hub(const Settings& settings, std::function<void()> over);
  /// Hands the control plane over, or else tells the ranks that they are on their own now. Any
  /// thread; on the loop thread it hands nothing over.
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  const net::SocketAddress& address() const { return address_; }
  /// Another rank's process takes the control plane over where one outside this process goes on for
  /// a moment yet: true, and this hub is over. Takes at most about a second, or three where the
  /// ranks have not all come here yet. Any thread but the loop's.
  bool handOver();
  /// The process of a rank has ended: its connection counts as broken, after what it had sent. Any
  /// thread.
  void ended(int rank);
  /// Connections that were turned away so far: strangers and wrong ranks.
  std::uint64_t rejected() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
  net::SocketAddress address_;
};

/// The communicator that all ranks of a job are in from the start.
std::uint64_t worldId(std::uint64_t job, int size);

} // namespace rondo::bootstrap
