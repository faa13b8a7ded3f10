// One listener of a process, shared by all objects that accept connections at one address.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>

#include "net/connection.h"

namespace rondo::net {

/// Accepts connections as an Acceptor does. All objects of a process that may listen at any port of
/// the same address share one listener, so a further one costs no descriptor. Exception: control
/// connections without a secret. The last object closes the listener.
class SharedAcceptor {
 public:
  /// Selects the connections: those whose hello has the same values.
  struct Key {
    Hello::Purpose purpose = Hello::Purpose::control;
    std::uint64_t job = 0;
    std::uint64_t communicator = 0; ///< data
    std::int32_t rank = 0;          ///< data: Hello::dst
    auto operator<=>(const Key&) const = default;
  };
  struct Settings {
    SocketAddress address; ///< as in Acceptor::Settings
    Secret secret;
    Key key;
    int peers = 0; ///< number of honest peers: see Acceptor::expect()
  };

  /// `accepted` as in Acceptor, but it may still run after this object was destroyed on another
  /// thread. Throws the errors of Acceptor's constructor.
  SharedAcceptor(const Settings& settings, std::function<void(Accepted)> accepted);
  ~SharedAcceptor();
  SharedAcceptor(const SharedAcceptor&) = delete;
  SharedAcceptor& operator=(const SharedAcceptor&) = delete;

  const SocketAddress& address() const;
  /// Failed handshakes at this listener since this object was made, for any member.
  std::uint64_t rejected() const;
  /// See Acceptor::throwIfStarved().
  void throwIfStarved() const;

 private:
  class Listener;
  const Key key_;
  std::shared_ptr<Listener> listener_;
  std::uint64_t rejected_before_ = 0;
};

} // namespace rondo::net
