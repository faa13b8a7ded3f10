// The member's side of the control plane, and the sessions that use it. Longer than 500 lines
// because all of it works on the communicators that one mutex guards.
#include "bootstrap/membership.h"

#include <algorithm>
#include <utility>

#include "base/awake.h"
#include "base/log.h"
#include "bootstrap/hub.h"
#include "bootstrap/process_jobs.h"
#include "bootstrap/remote_communicator.h"
#include "net/interfaces.h"
#include "net/native_address.h"
#include "rondo/error.h"

namespace rondo::bootstrap {

using base::Clock;
using frames::Type;

namespace {

/// How long this rank waits for the hub's decision about a failure that it reported.
constexpr std::chrono::milliseconds kAgreeLimit{400};
/// New calls are reported at least this often, so that differences are known within a second.
constexpr std::chrono::milliseconds kReportPeriod{250};

} // namespace

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

  Blobs allGather(std::span<const std::byte> blob, std::chrono::milliseconds limit) override {
    if (blob.size() > kBlobBytes)
      throw Error(ErrorCode::invalid_argument,
                  "allGather: a blob of " + std::to_string(blob.size()) + " bytes; at most " +
                      std::to_string(kBlobBytes) + " are allowed");
    const Failure late{ErrorCode::timeout,
                       "exchange of set-up data timed out after " + base::text(limit), -1};
    return membership_->exchange(*communicator_, false, {blob.begin(), blob.end()}, limit, late)
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
  net::Dial::Settings dial;
  dial.address = settings.hub;
  dial.secret = settings.secret;
  dial.hello.purpose = net::Hello::Purpose::control;
  dial.hello.job = settings.job;
  dial.hello.rank = settings.rank;
  dial.hello.size = settings.size;
  dial.deadline = settings.deadline;
  const std::shared_ptr<Membership> self(new Membership(settings));
  try {
    net::Dial dialing(dial);
    base::UniqueFd fd = dialing.wait();
    self->bind_ = net::localAddress(fd.get());
    if (!settings.socket_interface.empty())
      self->bind_ =
          net::chooseAddress({settings.socket_interface, settings.socket_family, settings.hub});
    self->bind_.port = 0;
    // Without a secret the hub is on loopback, and only there may a rank listen.
    net::SocketAddress listen = settings.secret.present ? self->bind_ : net::localAddress(fd.get());
    listen.port = 0;
    self->standby_ =
        ProcessJobs::ofProcess().standby({listen, settings.secret, settings.job, settings.size});
    self->loop_->call([&] { self->connect(std::move(fd), dialing.sessionKey()); });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::system) throw;
    throw Error(ErrorCode::init_failed, who + " cannot join at the rendezvous: " + error.what());
  }
  return self;
}

Membership::Membership(const Settings& settings)
    : settings_(settings), loop_(net::EventLoop::get()), hosts_hub_(settings.hosts_hub) {
  secret_ = settings.secret;
  job_ = settings.job;
  std::vector<int> all(static_cast<std::size_t>(settings.size));
  for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank] = static_cast<int>(rank);
  const std::uint64_t id = worldId(settings.job, settings.size);
  world_ = std::make_shared<RemoteCommunicator>(id, settings.rank, std::move(all));
  communicators_[id] = world_;
}

void Membership::connect(base::UniqueFd fd, const net::Key& key) {
  openLink(std::move(fd), key);
  if (settings_.newcomers >= 0)
    link_->send(Type::seat, frames::Seat{settings_.newcomers, settings_.size});
  scheduleTick();
}

void Membership::openLink(base::UniqueFd fd, const net::Key& key) {
  const auto weak = weak_from_this();
  link_ = Link::open(loop_, std::move(fd), key, Link::Side::member,
                     {[weak](Type type, base::Reader& in) {
                        if (const auto self = weak.lock()) self->received(type, in);
                      },
                      [weak](const std::string& why) {
                        if (const auto self = weak.lock())
                          self->hubLost(ErrorCode::peer_dead, "died (" + why + ")");
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

Membership::~Membership() {
  if (maker_.elsewhere()) return;
  // If the hub is moving, the new hub must receive the bye; otherwise it would report a death. News
  // of a move may arrive at any time before the loop sends the bye.
  const base::Deadline limit(kAgreeLimit);
  const bool waits = !loop_->onLoopThread();
  for (bool parted = false; !parted;) {
    if (waits) {
      std::unique_lock lock(mutex_);
      changed_->wait_until(lock, limit.at(), [&] { return !moving_; });
    }
    loop_->call([&] { parted = part(waits && !limit.passed()); });
  }
}

/// Sends bye and closes the connection. Returns false if the hub is moving and the caller can wait.
bool Membership::part(bool waits) {
  {
    std::lock_guard lock(mutex_);
    if (moving_ && waits) return false;
  }
  loop_->cancel(tick_);
  loop_->cancel(move_timer_);
  search_.reset();
  dial_.reset();
  if (!link_) return true;
  link_->send(Type::bye);
  link_->close();
  return true;
}

std::unique_ptr<Session> Membership::open(std::chrono::milliseconds limit) {
  return split(
      *world_, 0, settings_.rank, limit,
      {ErrorCode::init_failed, "creating a communicator timed out after " + base::text(limit), -1});
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
                                                           bool split, std::vector<std::byte> blob,
                                                           std::chrono::milliseconds limit,
                                                           const Failure& late) {
  const std::uint64_t index = communicator.exchanges.fetch_add(1);
  std::unique_lock lock(mutex_);
  if (communicator.failure) throw communicator.failure->error();
  auto exchange = std::make_shared<Exchange>();
  exchange->split = split;
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
  link_->send(Type::gather, frames::Gather{id, index, exchange.split, exchange.blob});
}

std::unique_ptr<Session> Membership::split(RemoteCommunicator& communicator, int color, int key,
                                           std::chrono::milliseconds limit, const Failure& late) {
  const auto done = exchange(communicator, true, encodeSplit(color, key), limit, late);
  if (!done->child) return nullptr;
  return std::make_unique<RemoteSession>(shared_from_this(), done->child);
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
    communicator.stall = stall;
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
  const int host = host_;
  lock.unlock();
  if (!ProcessJobs::ofProcess().handOver(job_)) return;
  // The new hub waits for all ranks, so this one must connect before it ends.
  lock.lock();
  changed_->wait_for(lock, kAgreeLimit,
                     [&] { return !supervised_ || (host_ != host && !moving_); });
}

// On the loop thread ------------------------------------------------------------------------------

void Membership::received(Type type, base::Reader& in) {
  silence_.heard(Clock::now());
  switch (type) {
    case Type::welcome: welcomed(frames::Welcome::read(in)); break;
    case Type::refused: refused(frames::Refused::read(in)); break;
    case Type::present: present(frames::Present::read(in)); break;
    case Type::standbys: standbys(frames::Standbys::read(in)); break;
    case Type::agreed: agreed(frames::Agreed::read(in)); break;
    case Type::gathered: gathered(frames::Gathered::read(in)); break;
    case Type::failed: failed(frames::Failed::read(in)); break;
    case Type::ask: answer(frames::Ask::read(in)); break;
    case Type::beat: heard_ = frames::Beat::read(in).number; break;
    case Type::left: left(frames::Left::read(in)); break;
    case Type::succeed: succeed(frames::Succeed::read(in)); break;
    case Type::moved: moved(frames::Moved::read(in)); break;
    case Type::farewell: {
      base::log(LogLevel::info, "the control plane has ended; calls continue without it");
      std::lock_guard lock(mutex_);
      supervised_ = false;
      changed_->notify_all();
      break;
    }
    case Type::join:
    case Type::gather:
    case Type::fail:
    case Type::progress:
    case Type::stalled:
    case Type::leave:
    case Type::bye:
    case Type::succeeded:
    case Type::roster:
    case Type::settled:
    case Type::shrink:
    case Type::agree:
    case Type::seat: in.fail("is one that only members send");
    case Type::seated: in.fail("is for newcomers");
  }
  in.finish();
}

void Membership::welcomed(const frames::Welcome& welcome) {
  std::lock_guard lock(mutex_);
  if (welcome_) throw Error(ErrorCode::transport, "a second welcome");
  welcome_ = true;
  host_ = welcome.host;
  if (!secret_.present) secret_ = welcome.secret;
}

void Membership::gathered(frames::Gathered part) {
  std::uint64_t orphan = 0;
  {
    std::lock_guard lock(mutex_);
    const auto found = communicators_.find(part.communicator);
    if (found == communicators_.end()) return;
    RemoteCommunicator& communicator = *found->second;
    const auto open = communicator.open.find(part.index);
    if (open == communicator.open.end()) return;
    Exchange& exchange = *open->second;
    if (part.first != exchange.have || part.blobs.size() > exchange.blobs.size() - exchange.have)
      throw Error(ErrorCode::transport, "parts of an exchange arrived out of order");
    for (auto& blob : part.blobs) exchange.blobs[exchange.have++] = std::move(blob);
    if (exchange.have < exchange.blobs.size()) return;
    if (exchange.split) {
      exchange.child = makeChild(communicator, part.index, exchange.blobs);
      // The caller of split() has given up.
      if (exchange.child && exchange.abandoned) {
        orphan = exchange.child->id;
        communicators_.erase(orphan);
      }
    }
    exchange.done = true;
    communicator.young = false; // all ranks have it
    if (exchange.abandoned) communicator.open.erase(open);
    changed_->notify_all();
  }
  if (orphan != 0) link_->send(Type::leave, frames::Leave{{orphan, 0, {}}});
}

std::shared_ptr<RemoteCommunicator> Membership::makeChild(const RemoteCommunicator& parent,
                                                          std::uint64_t index, const Blobs& blobs) {
  std::vector<std::pair<int, int>> color_key;
  for (const auto& blob : blobs) color_key.push_back(decodeSplit(blob));
  const int color = color_key[static_cast<std::size_t>(parent.rank)].first;
  const auto groups = splitGroups(color_key);
  const auto group = groups.find(color);
  if (group == groups.end()) return nullptr;
  const auto own = std::find(group->second.begin(), group->second.end(), parent.rank);
  std::vector<int> members;
  for (const int rank : group->second)
    members.push_back(parent.members[static_cast<std::size_t>(rank)]);
  auto child = std::make_shared<RemoteCommunicator>(childId(parent.id, index, color),
                                                    static_cast<int>(own - group->second.begin()),
                                                    std::move(members));
  communicators_[child->id] = child;
  return child;
}

void Membership::failed(const frames::Failed& report) {
  std::lock_guard lock(mutex_);
  const auto found = communicators_.find(report.communicator);
  if (found != communicators_.end()) setFailure(*found->second, report.failure);
}

void Membership::left(const frames::Left& answer) {
  std::lock_guard lock(mutex_);
  const auto found = communicators_.find(answer.communicator);
  if (found == communicators_.end()) return;
  found->second->left = true;
  found->second->first = answer.first;
  changed_->notify_all();
}

std::string Membership::hubText() const {
  if (host_ >= 0) return "rank " + std::to_string(host_) + " of the job";
  return settings_.hub_process + " at " + settings_.hub.text();
}

void Membership::setFailure(RemoteCommunicator& communicator, Failure failure) {
  if (communicator.failure) return;
  if (failure.culprit >= static_cast<int>(communicator.members.size())) failure.culprit = -1;
  if (failure.difference)
    failure.text = failure.difference->text(communicator.board.describe.load());
  communicator.failure = std::move(failure);
  raise(communicator.failed);
  changed_->notify_all();
  communicator.board.failed.tell(*communicator.failure, true);
}

void Membership::failAll(const std::function<Failure(const RemoteCommunicator&, int)>& verdict) {
  const auto communicators = communicators_;
  for (const auto& [id, communicator] : communicators) {
    const auto& members = communicator->members;
    const auto host = std::find(members.begin(), members.end(), host_);
    const int culprit = host == members.end() ? -1 : static_cast<int>(host - members.begin());
    // One that was made without the host waits for the next hub.
    if (communicator->young && culprit < 0) continue;
    setFailure(*communicator, verdict(*communicator, culprit));
  }
  changed_->notify_all();
}

void Membership::hubLost(ErrorCode code, const std::string& what) {
  if (search_) return seek(); // a rank that did not become the host
  {
    std::lock_guard lock(mutex_);
    if (!supervised_) return;
    if (!welcome_) {
      supervised_ = false;
      if (code == ErrorCode::peer_dead) code = ErrorCode::init_failed;
    }
    failAll([&](const RemoteCommunicator&, int culprit) -> Failure {
      const std::string who = culprit >= 0 ? hostName(culprit, host_) : hubText();
      return {code, who + ", which hosts the control plane, " + what, culprit};
    });
    if (!supervised_) return;
  }
  startSearch();
}

void Membership::hubUnheard(std::chrono::milliseconds limit) {
  std::lock_guard lock(mutex_);
  if (!supervised_) return;
  failAll([&](const RemoteCommunicator& communicator, int culprit) {
    const std::string host = culprit >= 0 ? hostName(culprit, host_) : hubText();
    return Ledger::unheardHost(host, culprit, communicator.rank, limit);
  });
}

void Membership::scheduleTick() {
  const auto period = std::min(beatPeriod(settings_.heartbeat), kReportPeriod);
  gap_.expect(Clock::now() + period);
  tick_ = loop_->after(period, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->tick();
  });
}

void Membership::tick() {
  const auto late = gap_.late(Clock::now());
  scheduleTick();
  if (!link_) return; // while it moves, another deadline applies
  const auto now = Clock::now();
  silence_.forgive(late, now);
  const auto limit = silenceLimit(settings_.heartbeat);
  if (!settings_.patient && !search_ && silence_.longerThan(limit, now)) {
    hubUnheard(limit);
    // Later, so that the hub can give its own verdict if it lives.
    if (silence_.longerThan(limit + settings_.heartbeat, now)) {
      link_->close();
      hubLost(ErrorCode::unresponsive, "does not respond");
    }
  }
  report();
}

frames::ProgressReport::Board Membership::boardOf(const RemoteCommunicator& communicator,
                                                  std::uint64_t reported) {
  const ProgressBoard& board = communicator.board;
  return {communicator.id, board.completed.load(std::memory_order_relaxed),
          board.calls.since(reported)};
}

void Membership::report() {
  if (!link_) return;
  std::vector<frames::ProgressReport::Board> boards;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, communicator] : communicators_) {
      const Progress progress = Progress::of(communicator->board);
      if (progress == communicator->reported) continue;
      boards.push_back(boardOf(*communicator, communicator->reported.entered));
      communicator->reported = {boards.back().calls.entered, boards.back().completed};
    }
  }
  const auto now = Clock::now();
  if (boards.empty() && now < next_beat_) return;
  next_beat_ = now + beatPeriod(settings_.heartbeat);
  for (const auto& part : frames::ProgressReport::parts(heard_, 0, std::move(boards)))
    link_->send(Type::progress, part);
}

void Membership::answer(const frames::Ask& ask) {
  frames::ProgressReport report{heard_, ask.number, {}};
  {
    std::lock_guard lock(mutex_);
    const auto found = communicators_.find(ask.communicator);
    if (found != communicators_.end()) report.boards.push_back(boardOf(*found->second, 0));
  }
  link_->send(Type::progress, report);
}

} // namespace rondo::bootstrap
