// The member's side of the control plane, and the sessions that use it.
#include "bootstrap/membership.h"

#include <algorithm>
#include <utility>

#include "base/awake.h"
#include "base/log.h"
#include "bootstrap/hub.h"
#include "bootstrap/limits.h"
#include "bootstrap/process_jobs.h"
#include "bootstrap/remote_communicator.h"
#include "net/interfaces.h"
#include "net/native_address.h"
#include "rondo/error.h"

namespace rondo::bootstrap {

using base::Clock;
using frames::Type;

/// All users of a membership share one. When the last of them has gone, the rank says bye.
/// Meanwhile the membership still lives: the hub may move, and its callbacks then follow it.
struct Membership::Users {
  explicit Users(std::shared_ptr<Membership> whose) : membership(std::move(whose)) {}
  ~Users() { membership->depart(); }
  Users(const Users&) = delete;
  Users& operator=(const Users&) = delete;

  const std::shared_ptr<Membership> membership;
};

class RemoteSession final : public Session {
 public:
  RemoteSession(std::shared_ptr<Membership> membership,
                std::shared_ptr<RemoteCommunicator> communicator)
      : membership_(std::move(membership)), communicator_(std::move(communicator)) {}
  ~RemoteSession() override { membership_->leave(*communicator_); }

  int rank() const override { return communicator_->rank; }
  int size() const override { return static_cast<int>(communicator_->members.size()); }
  std::vector<int> members() const override { return communicator_->members; }
  std::uint64_t communicator() const override { return communicator_->id; }
  std::uint64_t job() const override { return membership_->job_; }
  const net::Secret& secret() const override { return membership_->secret_; }
  net::SocketAddress bindAddress() const override { return membership_->bind_; }
  std::shared_ptr<base::Board> board() const override { return nullptr; }

  Blobs gather(std::vector<std::byte> blob, std::chrono::milliseconds limit,
               const Failure& late) override {
    return membership_
        ->exchange(*communicator_, Membership::Purpose::data, std::move(blob), limit, late)
        ->blobs;
  }
  std::unique_ptr<Session> split(int color, int key, std::chrono::milliseconds limit) override {
    return membership_->split(
        *communicator_, color, key, limit,
        {ErrorCode::timeout, "split timed out after " + base::text(limit), -1});
  }

  std::unique_ptr<Session> shrink(const std::vector<bool>& stay) override {
    return std::make_unique<RemoteSession>(membership_, membership_->shrink(*communicator_, stay));
  }

  void finishOpening(std::chrono::milliseconds limit) override {
    membership_->finishOpening(*communicator_, limit);
  }

  std::unique_ptr<Session> survivors(std::chrono::milliseconds limit) override {
    return std::make_unique<RemoteSession>(membership_, membership_->agree(*communicator_, limit));
  }

  const std::atomic<std::uint32_t>& failedWord() const override { return communicator_->failed; }
  Failure failure() const override { return membership_->failureOf(*communicator_); }
  void told() override { membership_->told(*communicator_); }
  ProgressBoard& progress() override { return communicator_->board; }
  void stalled(const Stall& stall) override { membership_->stalled(*communicator_, stall); }
  Failure fail(const Failure& failure, const std::optional<Stall>& stall) override {
    return membership_->fail(*communicator_, failure, stall);
  }

 private:
  const std::shared_ptr<Membership> membership_;
  const std::shared_ptr<RemoteCommunicator> communicator_;
};

// Coming and going --------------------------------------------------------------------------------

std::shared_ptr<Membership> Membership::join(const Settings& settings) {
  const std::string who =
      "rank " + std::to_string(settings.rank) + " of " + std::to_string(settings.size);
  const std::shared_ptr<Membership> self(new Membership(settings));
  net::Dial::Settings dial = self->dialTo(settings.hub, settings.deadline);
  dial.patient = !settings.hub_listens;
  try {
    net::Dial dialing(dial);
    net::Socket socket = dialing.wait();
    self->bind_ = net::localAddress(socket.get());
    if (!settings.socket_interface.empty())
      self->bind_ =
          net::chooseAddress({settings.socket_interface, settings.socket_family, settings.hub});
    self->bind_.port = 0;
    // Without a secret the hub is on loopback, and only there may a rank listen.
    net::SocketAddress listen =
        settings.secret.present ? self->bind_ : net::localAddress(socket.get());
    listen.port = 0;
    self->standby_ =
        ProcessJobs::ofProcess().standby({listen, settings.secret, settings.job, settings.size});
    self->loop_->call([&] { self->connect(std::move(socket), dialing.sessionKey()); });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::system) throw;
    std::string why = error.what();
    if (error.code() == ErrorCode::peer_dead)
      why = settings.hub_process +
            " no longer listens there. Either it has ended, or it withdrew the id, or the job was "
            "complete without this rank (" +
            why + ")";
    throw Error(ErrorCode::init_failed, who + " cannot join at the rendezvous: " + why);
  }
  const std::shared_ptr<Membership> users(std::make_shared<Users>(self), self.get());
  self->users_ = users;
  return users;
}

Membership::Membership(const Settings& settings)
    : settings_(settings), loop_(net::EventLoop::get()) {
  secret_ = settings.secret;
  std::vector<int> all(static_cast<std::size_t>(settings.size));
  for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank] = static_cast<int>(rank);
  const std::uint64_t id = worldId(settings.job, settings.size);
  world_ = std::make_shared<RemoteCommunicator>(id, settings.rank, std::move(all));
  communicators_[id] = world_;
}

void Membership::connect(net::Socket socket, const net::Key& key) {
  hosts_hub_ = ProcessJobs::ofProcess().hubOf(settings_.job).has_value();
  openLink(std::move(socket), key);
  if (settings_.newcomers >= 0)
    link_->send(Type::seat, frames::Seat{settings_.newcomers, settings_.size});
  scheduleTick();
}

void Membership::openLink(net::Socket socket, const net::Key& key) {
  const auto weak = weak_from_this();
  const std::string own = "rank " + std::to_string(settings_.rank);
  link_ = Link::open(loop_, std::move(socket), key, Link::Side::member,
                     {[weak](Type type, base::Reader& in) {
                        if (const auto self = weak.lock()) self->received(type, in);
                      },
                      [weak, own](const std::string& why) {
                        const auto self = weak.lock();
                        if (!self) return;
                        const std::string what = "died (" + why + ")";
                        const bool silent = !self->link_->heard();
                        self->hubLost(ErrorCode::peer_dead,
                                      silent ? what + ", or " + unknownVersion(own) : what);
                      },
                      [weak, own](int version) {
                        if (const auto self = weak.lock())
                          self->hubLost(ErrorCode::init_failed, differentVersions(version, own));
                      }});
  frames::Join hello;
  hello.heartbeat_ms = static_cast<std::uint32_t>(settings_.heartbeat.count());
  hello.patient = settings_.patient;
  hello.hosts_hub = hosts_hub_;
  hello.generation = generation_;
  hello.standby = standby_->address();
  link_->send(Type::join, hello);
  silence_.heard(Clock::now());
  heard_ = 0;
}

void Membership::depart() {
  if (maker_.elsewhere()) return;
  loop_->call([&] {
    departing_ = true;
    loop_->cancel(tick_);
    sayBye();
  });
  std::unique_lock lock(mutex_);
  if (loop_->onLoopThread()) { // it must not wait, because it reads the answer
    if (!departed_)
      depart_timer_ = loop_->after(kFollowLimit, [self = shared_from_this()] { self->departed(); });
    return;
  }
  const auto over = [&] { return departed_; };
  bool follows = false;
  if (!base::waitAwake(changed_, lock, kAgreeLimit, over)) {
    lock.unlock();
    loop_->call([&] { follows = !search_; });
    lock.lock();
  }
  if (follows && moving_) base::waitAwake(changed_, lock, kFollowLimit, over);
  lock.unlock();
  loop_->call([&] { departed(); });
}

/// The hub answers a bye by closing the connection. If it had sent the address of another hub
/// before, it ignores the bye, and this rank says bye there; otherwise that hub would report a
/// death.
void Membership::sayBye() {
  if (search_ || dial_) return; // again when there is a hub
  if (!link_ || !link_->open()) return departed();
  link_->send(Type::bye);
}

void Membership::departed() {
  dropOffered(); // if the old hub runs, it has read the bye before it decides on the answer
  loop_->cancel(depart_timer_);
  loop_->cancel(move_timer_);
  search_.reset();
  dial_.reset();
  if (link_) link_->close();
  std::lock_guard lock(mutex_);
  departed_ = true;
  changed_->notify_all();
}

std::unique_ptr<Session> Membership::open(std::chrono::milliseconds limit) {
  return split(
      *world_, 0, settings_.rank, limit,
      {ErrorCode::init_failed, "creating a communicator timed out after " + base::text(limit), -1});
}

bool Membership::failedToMeet() const {
  const std::lock_guard lock(mutex_);
  return !met_ && (world_->failure || !supervised_);
}

bool Membership::refusedToMeet() const {
  const std::lock_guard lock(mutex_);
  return !met_ && refused_;
}

// For sessions ------------------------------------------------------------------------------------

template <class Body>
void Membership::post(Type type, Body body) {
  loop_->post([weak = weak_from_this(), type, body = std::move(body)] {
    const auto self = weak.lock();
    if (self && self->link_) self->link_->send(type, body);
  });
}

std::shared_ptr<Membership::Exchange> Membership::exchange(RemoteCommunicator& communicator,
                                                           Purpose purpose,
                                                           std::vector<std::byte> blob,
                                                           std::chrono::milliseconds limit,
                                                           const Failure& late) {
  const std::uint64_t index = communicator.exchanges.fetch_add(1);
  std::unique_lock lock(mutex_);
  if (communicator.failure) throw communicator.failure->error();
  auto exchange = std::make_shared<Exchange>();
  exchange->purpose = purpose;
  exchange->blobs.resize(communicator.members.size());
  exchange->blob = std::move(blob);
  communicator.open[index] = exchange;
  const auto ended = [&] { return exchange->done || communicator.failure || !supervised_; };
  loop_->post([weak = weak_from_this(), id = communicator.id, index] {
    if (const auto self = weak.lock()) self->sendExchange(id, index);
  });
  if (!base::waitAwake(changed_, lock, limit, ended)) {
    post(Type::fail, frames::Fail{communicator.id, late, {}, index});
    if (!base::waitAwake(changed_, lock, kAgreeLimit, ended)) setFailure(communicator, late);
  }
  // An exchange that is complete returns its result, even if something failed after it.
  if (exchange->done) {
    communicator.open.erase(index);
    return exchange;
  }
  exchange->abandoned = true;
  if (communicator.failure) throw communicator.failure->error();
  if (refusal_) throw inRanksOf(communicator, *refusal_).error();
  throw Error(
      ErrorCode::peer_dead,
      hubText() +
          ", which hosts the control plane, has ended: no communicator can be created any more");
}

void Membership::sendExchange(std::uint64_t id, std::uint64_t index) {
  std::lock_guard lock(mutex_);
  const auto communicator = communicators_.find(id);
  if (!link_ || communicator == communicators_.end()) return;
  const auto found = communicator->second->open.find(index);
  if (found == communicator->second->open.end()) return;
  Exchange& exchange = *found->second;
  if (exchange.done || exchange.abandoned || std::exchange(exchange.sent, true)) return;
  const bool split = exchange.purpose == Purpose::split;
  link_->send(Type::gather, frames::Gather{id, index, split, exchange.blob});
}

std::unique_ptr<Session> Membership::split(RemoteCommunicator& communicator, int color, int key,
                                           std::chrono::milliseconds limit, const Failure& late) {
  const auto done = exchange(communicator, Purpose::split, encodeSplit(color, key), limit, late);
  if (!done->child) return nullptr;
  return std::make_unique<RemoteSession>(users_.lock(), done->child);
}

Failure Membership::fail(RemoteCommunicator& communicator, const Failure& failure,
                         const std::optional<Stall>& stall) {
  std::unique_lock lock(mutex_);
  if (communicator.failure) return *communicator.failure;
  if (supervised_ && !loop_->onLoopThread()) {
    communicator.proposed = frames::Fail{communicator.id, failure, stall, {}};
    postReport();
    post(Type::fail, *communicator.proposed);
    base::waitAwake(changed_, lock, kAgreeLimit, [&] { return communicator.failure.has_value(); });
  }
  if (!communicator.failure) setFailure(communicator, failure);
  return *communicator.failure;
}

Failure Membership::failureOf(const RemoteCommunicator& communicator) const {
  std::lock_guard lock(mutex_);
  return communicator.failure.value_or(Failure{});
}

void Membership::told(RemoteCommunicator& communicator) {
  const std::lock_guard lock(mutex_);
  communicator.told = true;
}

void Membership::stalled(RemoteCommunicator& communicator, const Stall& stall) {
  {
    std::lock_guard lock(mutex_);
    if (stall.sequence > 0) communicator.stall = stall; // that of a Send or Recv is reported again
  }
  postReport();
  post(Type::stalled, frames::Stalled{communicator.id, stall});
}

void Membership::postReport() {
  loop_->post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->report();
  });
}

void Membership::leave(RemoteCommunicator& communicator) {
  if (maker_.elsewhere()) return;
  // Waits until the frame is sent, because the process may end right afterwards.
  const frames::Leave farewell{boardOf(communicator, 0)};
  {
    std::lock_guard lock(mutex_);
    communicator.leaving = true;
  }
  bool sent = false;
  loop_->call([&] {
    if (!link_) return;
    link_->send(Type::leave, farewell);
    sent = link_->open();
  });
  std::unique_lock lock(mutex_);
  const auto differs = [&] { return communicator.failure && communicator.failure->difference; };
  // If the ranks' calls differ and no call is left to throw the error, it is logged. In a launched
  // job only one rank logs it: the hub's answer to this rank's leave message says which.
  const auto known = [&] {
    return communicator.failure && (!settings_.launched || communicator.told || !differs());
  };
  const bool compared = sent && farewell.board.calls.entered > 0 && !known();
  if (compared && !loop_->onLoopThread())
    changed_->wait_for(lock, kAgreeLimit,
                       [&] { return communicator.left || known() || !supervised_; });
  if (differs() && !communicator.told && (communicator.first || !settings_.launched))
    base::log(LogLevel::error, "a communicator ended in an error: ", communicator.failure->text);
  communicators_.erase(communicator.id);
  if (communicators_.size() > 1 || loop_->onLoopThread()) return; // one is that of all ranks
  // The process may end now, in any way, and must not take the other ranks' control plane with it.
  // If the hub moves and may come here, it must be known first whether it does.
  if (offered_)
    changed_->wait_for(lock, kAgreeLimit, [&] { return !supervised_ || (!offered_ && !moving_); });
  const int host = host_;
  lock.unlock();
  if (!ProcessJobs::ofProcess().handOver(settings_.job)) return;
  // The new hub waits for all ranks, so this one must connect before it ends.
  lock.lock();
  changed_->wait_for(lock, kAgreeLimit,
                     [&] { return !supervised_ || (host_ != host && !moving_); });
  lock.unlock();
  Link::awaitParted();
}

} // namespace rondo::bootstrap
