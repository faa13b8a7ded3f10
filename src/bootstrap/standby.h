// The listener of a process that other ranks connect to when the hub's process has died.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "base/fork.h"
#include "net/connection.h"
#include "net/event_loop.h"
#include "net/shared_acceptor.h"

namespace rondo::bootstrap {

/// The ranks that may take the hub over, of those that listen. One of each machine comes first, and
/// lower ranks before higher ones.
std::set<int> chooseCandidates(const std::map<int, net::SocketAddress>& listeners,
                               std::size_t most);

/// Keeps the connections of ranks that expect a hub here until this process has one. It listens as
/// long as the process has a rank in the job: an address that refuses connections proves that the
/// rank has ended. All ranks of a process share one.
class Standby {
 public:
  /// Values of Hello::communicator. The peer only wants to know whether this process lives.
  static constexpr std::uint64_t kProbe = 1;
  /// A probe that also says: a hub with the majority is about to go on without the rank that the
  /// hello names.
  static constexpr std::uint64_t kExcludes = 2;

  struct Settings {
    net::SocketAddress address; ///< port 0
    net::Secret secret;
    std::uint64_t job = 0;
    int size = 0; ///< of the job
  };
  /// `on_exclusion` is called on the loop thread when a hub says that it goes on without a rank.
  /// Throws the errors of net::Acceptor.
  explicit Standby(const Settings& settings, std::function<void()> on_exclusion = {});

  const net::SocketAddress& address() const { return acceptor_->address(); }
  /// A copy from the process that forked this one.
  bool elsewhere() const { return maker_.elsewhere(); }
  /// Whether a hub has said that it goes on without this rank. On the loop thread.
  bool excluded(int rank) const { return peers_->excluded.contains(rank); }
  /// Passes the connections that have come and that will come to `taker`. Null: keeps them again.
  /// On the loop thread, as `taker`.
  void give(std::function<void(net::Accepted)> taker);

 private:
  /// Used by the loop thread only.
  struct Peers {
    void accept(int size, net::Accepted peer);

    std::map<int, net::Accepted> waiting; ///< by rank
    std::set<int> excluded;
    std::function<void()> on_exclusion;
    std::function<void(net::Accepted)> taker;
  };
  const base::Maker maker_;
  const std::shared_ptr<net::EventLoop> loop_;
  const std::shared_ptr<Peers> peers_;
  std::unique_ptr<net::SharedAcceptor> acceptor_;
};

} // namespace rondo::bootstrap
