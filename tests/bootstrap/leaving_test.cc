// Tests ranks that end while the hub moves. The test plays the hubs, so that messages come in the
// same order each time.
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "bootstrap/hub.h"
#include "bootstrap/ledger.h"
#include "bootstrap/link.h"
#include "bootstrap/membership.h"
#include "bootstrap/process_jobs.h"
#include "net/connection.h"
#include "net/event_loop.h"
#include "support/free_port.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace bootstrap;
using namespace std::chrono_literals;
using frames::Type;

constexpr std::uint64_t kJob = 4711;

net::SocketAddress loopback(int port) {
  return net::SocketAddress::parse("127.0.0.1:" + std::to_string(port), "");
}

/// Serves one rank: remembers its messages, and does with each what `react` says.
class PlayedHub {
 public:
  using React = std::function<void(Link&, Type)>;

  PlayedHub(const net::SocketAddress& address, const net::Secret& secret, React react)
      : react_(std::move(react)) {
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
  /// Tells the rank that both ranks live and that `candidate`, where rank 0 listens, may take over.
  void tellCandidate(const net::SocketAddress& candidate) {
    loop_->call([&] {
      link_->send(Type::welcome, frames::Welcome{-1, kJob, {}});
      link_->send(Type::standbys, frames::Standbys{true, true, {{0, candidate}}});
      link_->send(Type::present, frames::Present{1, -1, {true, true}, {false, false}});
    });
  }
  /// Offers to move to the rank.
  void offer() {
    loop_->call([&] { link_->send(Type::succeed, frames::Succeed{{true, true}}); });
  }
  /// Tells the rank that this hub serves, and that rank 0's process hosts it.
  void serve() {
    loop_->call([&] {
      link_->send(Type::present, frames::Present{2, 0, {true, true}, {false, false}});
    });
  }
  void die() {
    loop_->call([&] { link_->close(); });
  }
  /// Waits until the rank has sent such a message.
  bool heard(Type type) {
    return await([&] { return heard_.contains(type); });
  }
  /// Waits until the rank has closed the connection.
  bool closed() {
    return await([&] { return closed_; });
  }

 private:
  void accept(net::Accepted peer) {
    link_ = Link::open(loop_, std::move(peer.socket), peer.session_key, Link::Side::hub,
                       {[this](Type type, base::Reader&) {
                          note([&] { heard_.insert(type); });
                          react_(*link_, type);
                        },
                        [this](const std::string&) { note([&] { closed_ = true; }); }});
  }
  void note(const std::function<void()>& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  bool await(const std::function<bool()>& holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, holds);
  }

  const std::shared_ptr<net::EventLoop> loop_ = net::EventLoop::get();
  const React react_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Type> heard_;
  bool closed_ = false;
  std::shared_ptr<Link> link_;
  std::unique_ptr<net::Acceptor> acceptor_;
};

/// What a hub does: it answers a bye by closing the connection.
void answerBye(Link& link, Type type) {
  if (type == Type::bye) link.close();
}
void ignore(Link&, Type) {}

std::shared_ptr<Membership> joinAt(const PlayedHub& hub, const net::Secret& secret) {
  Membership::Settings settings;
  settings.hub = hub.address();
  settings.secret = secret;
  settings.job = kJob;
  settings.rank = 1;
  settings.size = 2;
  settings.deadline = base::Clock::now() + 20s;
  settings.heartbeat = 60s;
  return Membership::join(settings);
}

} // namespace

// Proves: the next hub gets the bye, and so does not take the rank for dead.
TEST_CASE("a bye that crosses the news of a move is said again to the next hub") {
  const net::Secret secret = net::Secret::random();
  PlayedHub next(loopback(0), secret, answerBye);
  PlayedHub first(loopback(0), secret, [&](Link& link, Type type) {
    if (type == Type::bye) link.send(Type::moved, frames::Moved{0, next.address()});
  });
  auto membership = joinAt(first, secret);
  membership.reset();
  CHECK(next.heard(Type::settled));
  CHECK(next.heard(Type::bye));
}

// Proves: the same, if the rank has read the news of the move but has not yet reached the next hub.
TEST_CASE("a rank that ends while it connects to the next hub says bye there") {
  const net::Secret secret = net::Secret::random();
  const net::SocketAddress later = loopback(freePort());
  PlayedHub first(loopback(0), secret, ignore);
  auto membership = joinAt(first, secret);
  first.move(later);
  REQUIRE(first.closed());
  std::thread ends([&] { membership.reset(); });
  std::this_thread::sleep_for(50ms); // if the rank connects before it ends, nothing is tested
  {
    PlayedHub next(later, secret, answerBye);
    CHECK(next.heard(Type::bye));
    ends.join();
  }
}

// Proves: a rank that ends while the hub is replaced is not missing at the new hub.
TEST_CASE("a rank that ends while it looks for a new hub says bye there") {
  const net::Secret secret = net::Secret::random();
  PlayedHub next(loopback(0), secret, answerBye);
  PlayedHub first(loopback(0), secret, ignore);
  auto membership = joinAt(first, secret);
  REQUIRE(first.heard(Type::join));
  first.tellCandidate(next.address());
  first.die();
  REQUIRE(next.heard(Type::settled));
  std::thread ends([&] { membership.reset(); });
  std::this_thread::sleep_for(
      50ms); // if the new hub serves before the rank ends, nothing is tested
  next.serve();
  CHECK(next.heard(Type::bye));
  ends.join();
}

// Proves: no later rank of this process gets a hub that waits for the rank that has ended.
TEST_CASE("a rank that ends before its offer is decided closes the hub that it opened") {
  const net::Secret secret = net::Secret::random();
  PlayedHub hub(loopback(0), secret, [](Link& link, Type type) {
    if (type != Type::gather) return;
    for (const auto& part :
         frames::Gathered::parts(worldId(kJob, 2), 0, {encodeSplit(0, 0), encodeSplit(0, 1)}))
      link.send(Type::gathered, part);
  });
  auto membership = joinAt(hub, secret);
  REQUIRE(hub.heard(Type::join));
  hub.tellCandidate(loopback(freePort()));
  auto session = membership->open(20s);
  hub.offer();
  REQUIRE(hub.heard(Type::succeeded));
  CHECK(ProcessJobs::ofProcess().hubOf(kJob));
  session.reset();
  membership.reset();
  CHECK(hub.heard(Type::bye));
  CHECK_FALSE(ProcessJobs::ofProcess().hubOf(kJob));
}

// Proves: a hub that is stopped keeps no rank from ending.
TEST_CASE("a rank whose bye is not answered ends all the same") {
  const net::Secret secret = net::Secret::random();
  PlayedHub hub(loopback(0), secret, ignore);
  auto membership = joinAt(hub, secret);
  membership.reset();
  CHECK(hub.heard(Type::bye));
}

} // namespace rondo::test
