// One listener of a process for all who take connections at one address.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>

#include "net/connection.h"

namespace rondo::net {

/// Takes connections as an Acceptor does. All of a process that may listen at any port of the same
/// address share a listener, but for control without a secret: one more costs no descriptor. The
/// last one that goes closes it.
class SharedAcceptor {
 public:
  /// Which connections come here: those whose hello says the same.
  struct Key {
    Hello::Purpose purpose = Hello::Purpose::control;
    std::uint64_t job = 0;
    std::uint64_t communicator = 0; ///< data
    std::int32_t rank = 0;          ///< data: Hello::dst
    auto operator<=>(const Key&) const = default;
  };
  struct Settings {
    SocketAddress address; ///< as of Acceptor
    Secret secret;
    Key key;
    int peers = 0; ///< so many are honest: see Acceptor::expect()
  };

  /// `accepted` as of Acceptor, but it may still run when this has been destroyed on another
  /// thread. Throws as Acceptor's constructor.
  SharedAcceptor(const Settings& settings, std::function<void(Accepted)> accepted);
  ~SharedAcceptor();
  SharedAcceptor(const SharedAcceptor&) = delete;
  SharedAcceptor& operator=(const SharedAcceptor&) = delete;

  const SocketAddress& address() const;
  /// Handshakes at this listener that failed since this object was made, whomever they were for.
  std::uint64_t rejected() const;
  /// As Acceptor's.
  void throwIfStarved() const;

 private:
  class Listener;
  const Key key_;
  std::shared_ptr<Listener> listener_;
  std::uint64_t rejected_before_ = 0;
};

} // namespace rondo::net
