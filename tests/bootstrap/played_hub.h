// A hub that the test plays, and the rank that joins it.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/hub.h"
#include "bootstrap/ledger.h"
#include "bootstrap/link.h"
#include "bootstrap/membership.h"
#include "bootstrap/standby.h"
#include "net/connection.h"
#include "net/event_loop.h"
#include "support/test.h"

namespace rondo::test::played {

using namespace bootstrap;
using frames::Type;

inline constexpr std::uint64_t kJob = 4711;

inline net::SocketAddress loopback(int port) {
  return net::SocketAddress::parse("127.0.0.1:" + std::to_string(port), "");
}

/// Serves one rank: remembers its messages, and does with each what `react` says.
class PlayedHub {
 public:
  using React = std::function<void(Link&, Type)>;

  PlayedHub(const net::SocketAddress& address, const net::Secret& secret, React react)
      : react_(std::move(react)), given_(secret.present ? net::Secret{} : net::Secret::random()) {
    net::Acceptor::Settings settings;
    settings.address = address;
    settings.secret = secret;
    settings.job = kJob;
    acceptor_ = std::make_unique<net::Acceptor>(
        settings, [this](net::Accepted peer) { accept(std::move(peer)); });
  }
  ~PlayedHub() {
    acceptor_.reset();
    loop_->call([this] {
      if (link_) link_->close();
    });
  }
  PlayedHub(const PlayedHub&) = delete;
  PlayedHub& operator=(const PlayedHub&) = delete;

  const net::SocketAddress& address() const { return acceptor_->address(); }
  void move(const net::SocketAddress& to) {
    loop_->call([&] { link_->send(Type::moved, frames::Moved{0, to}); });
  }
  /// Tells the rank that all ranks live and that `rank`, which listens at `candidate`, may take
  /// over.
  void tellCandidate(const net::SocketAddress& candidate, int rank = 0) {
    loop_->call([&] {
      link_->send(Type::welcome, frames::Welcome{-1, kJob, given_});
      link_->send(Type::standbys, frames::Standbys{true, true, {{rank, candidate}}});
      link_->send(Type::present, present(1, -1));
    });
  }
  /// Offers to move to the rank.
  void offer() {
    loop_->call([&] { link_->send(Type::succeed, frames::Succeed{{true, true}, {}}); });
  }
  /// Tells the rank that this hub serves, and that rank 0's process hosts it.
  void serve() {
    loop_->call([&] { link_->send(Type::present, present(2, 0)); });
  }
  void die() {
    loop_->call([&] { link_->close(); });
  }
  /// Waits until the rank has sent such a message.
  bool heard(Type type) {
    return await([&] { return heard_.contains(type); });
  }
  /// Whether it has sent one so far.
  bool hasHeard(Type type) {
    const std::lock_guard lock(mutex_);
    return heard_.contains(type);
  }
  /// Waits until the rank has closed the connection.
  bool closed() {
    return await([&] { return closed_; });
  }
  /// Where the rank listens. Waits until the rank has said so.
  net::SocketAddress standby() {
    REQUIRE(heard(Type::join));
    const std::lock_guard lock(mutex_);
    return standby_.value();
  }

 private:
  void accept(net::Accepted peer) {
    if (peer.hello.communicator == Standby::kProbe) return;
    size_ = static_cast<std::size_t>(peer.hello.size);
    link_ = Link::open(loop_, std::move(peer.socket), peer.session_key, Link::Side::hub,
                       {[this](Type type, base::Reader& in) {
                          note([&] {
                            if (type == Type::join) standby_ = frames::Join::read(in).standby;
                            heard_.insert(type);
                          });
                          react_(*link_, type);
                        },
                        [this](const std::string&) { note([&] { closed_ = true; }); }});
  }
  frames::Present present(std::uint64_t generation, int host) const {
    return {generation, host, std::vector<bool>(size_, true), std::vector<bool>(size_)};
  }
  void note(const std::function<void()>& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  bool await(const std::function<bool()>& holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), holds);
  }

  const std::shared_ptr<net::EventLoop> loop_ = net::EventLoop::get();
  const React react_;
  const net::Secret given_; ///< for ranks without one
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Type> heard_;
  bool closed_ = false;
  std::size_t size_ = 0; ///< of the job
  std::optional<net::SocketAddress> standby_;
  std::shared_ptr<Link> link_;
  std::unique_ptr<net::Acceptor> acceptor_;
};

/// What a hub does: it answers a bye by closing the connection.
inline void answerBye(Link& link, Type type) {
  if (type == Type::bye) link.close();
}
inline void ignore(Link&, Type) {}
/// Makes the first communicator of both ranks.
inline void meet(Link& link, Type type) {
  if (type != Type::gather) return;
  for (const auto& part :
       frames::Gathered::parts(worldId(kJob, 2), 0, {encodeSplit(0, 0), encodeSplit(0, 1)}))
    link.send(Type::gathered, part);
}

/// Rank 1 joins there.
inline std::shared_ptr<Membership> joinAt(const PlayedHub& hub, const net::Secret& secret,
                                          std::chrono::milliseconds heartbeat, int size = 2) {
  Membership::Settings settings;
  settings.hub = hub.address();
  settings.secret = secret;
  settings.job = kJob;
  settings.rank = 1;
  settings.size = size;
  settings.deadline = base::Clock::now() + std::chrono::seconds(20);
  settings.heartbeat = heartbeat;
  return Membership::join(settings);
}

} // namespace rondo::test::played
