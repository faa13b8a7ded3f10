// Keeps connections until a hub takes them.
#include "bootstrap/standby.h"

#include <utility>

namespace rondo::bootstrap {

std::set<int> chooseCandidates(const std::map<int, net::SocketAddress>& listeners,
                               std::size_t most) {
  std::set<int> candidates;
  std::set<decltype(net::SocketAddress::ip)> machines;
  for (const auto& [rank, address] : listeners)
    if (candidates.size() < most && machines.insert(address.ip).second) candidates.insert(rank);
  for (const auto& [rank, address] : listeners)
    if (candidates.size() < most) candidates.insert(rank);
  return candidates;
}

Standby::Standby(const Settings& settings, std::function<void()> on_exclusion)
    : loop_(net::EventLoop::get()), peers_(std::make_shared<Peers>()) {
  peers_->on_exclusion = std::move(on_exclusion);
  net::SharedAcceptor::Settings listen;
  listen.address = settings.address;
  listen.secret = settings.secret;
  listen.key = {net::Hello::Purpose::control, settings.job, 0, 0};
  listen.peers = settings.size;
  acceptor_ = std::make_unique<net::SharedAcceptor>(
      listen, [weak = std::weak_ptr(peers_), size = settings.size](net::Accepted peer) {
        if (const auto peers = weak.lock()) peers->accept(size, std::move(peer));
      });
}

void Standby::Peers::accept(int size, net::Accepted peer) {
  const net::Hello& hello = peer.hello;
  if (hello.communicator == kProbe || hello.size != size || hello.rank < 0 || hello.rank >= size)
    return;
  if (hello.communicator == kExcludes) {
    excluded.insert(hello.rank);
    if (on_exclusion) on_exclusion();
    if (taker) taker(std::move(peer)); // on_exclusion() does not find a hub that is ending
    return;
  }
  if (taker) return taker(std::move(peer));
  waiting.insert_or_assign(hello.rank, std::move(peer));
}

void Standby::give(std::function<void(net::Accepted)> taker) {
  peers_->taker = std::move(taker);
  if (!peers_->taker) return;
  for (auto& [rank, peer] : std::exchange(peers_->waiting, {})) peers_->taker(std::move(peer));
}

} // namespace rondo::bootstrap
