// The UCX worker of a rank, its connections, and the handshake of channels.
#include "transports/ucx/channels.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "rondo/error.h"
#include "transports/support.h"

namespace rondo::transport::ucx {

/// The list of all workers of this process. A forked child never uses it, so its mutex needs no
/// NoFork. If join() held one, it could wait for a thread in visit(), which has this mutex, while
/// the worker that this thread polls logs and so waits for the NoFork: a deadlock.
class Channels::Company {
 public:
  static void join(Channels* one) {
    const std::lock_guard lock(mutex());
    all().push_back(one);
  }
  /// When this returns, no other thread polls the worker.
  static void leave(Channels* one) {
    const std::lock_guard lock(mutex());
    std::erase(all(), one);
  }
  /// Polls the workers that no thread is polling now.
  static void visit(const Channels* visitor) {
    const std::unique_lock lock(mutex(), std::try_to_lock);
    if (!lock) return;
    for (Channels* one : all()) {
      if (one == visitor || !one->lock_.try_lock()) continue;
      const std::lock_guard held(one->lock_, std::adopt_lock);
      if (one->worker_) one->move();
    }
  }

 private:
  // Never destroyed: a static Communicator of the program ends after the statics of this file.
  static std::mutex& mutex() {
    static auto& one = *new std::mutex;
    return one;
  }
  static std::vector<Channels*>& all() {
    static auto& list = *new std::vector<Channels*>;
    return list;
  }
};

Channels::Channels(Module& module, const Settings& settings, Context context)
    : context_(std::move(context)), peers_(static_cast<std::size_t>(context_.size)) {
  std::string why;
  worker_ = module.makeWorker(settings, *this, why);
  if (!worker_) throw Error(ErrorCode::unsupported, why);
  const auto address = worker_->address();
  address_.assign(address.begin(), address.end());
  Company::join(this);
}

Channels::~Channels() {
  if (maker_.elsewhere()) {
    // In a forked child, the worker is a copy of one that is in use in the parent.
    static_cast<void>(worker_.release());
    return;
  }
  end();
  Company::leave(this);
}

/// Waits until the peers have received the large messages and UCX has sent what it has taken,
/// unless a failure has left user memory in UCX's hands.
void Channels::end() noexcept {
  std::unique_lock lock(lock_);
  const auto moveUntil = [&](const auto& holds) {
    const base::Deadline deadline(kUcxEnd);
    while (!holds() && !deadline.passed()) {
      if (move()) continue;
      lock.unlock();
      Company::visit(this);
      ::sched_yield();
      lock.lock();
    }
  };
  std::vector<std::pair<Greeting::Bytes, Operation>> goodbyes(peers_.size());
  if (!cut_) {
    moveUntil([&] {
      return std::all_of(outboxes_.begin(), outboxes_.end(), [&](const auto& entry) {
        const Outbox& box = *entry.second;
        return box.received() || !peer(box.settings.peer).end.empty();
      });
    });
    unpaid_.clear();
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
      if (!peers_[rank].endpoint || !peers_[rank].end.empty()) continue;
      Greeting goodbye;
      goodbye.word = Word::goodbye;
      goodbye.src = context_.rank;
      goodbye.dst = static_cast<int>(rank);
      auto& [bytes, told] = goodbyes[rank];
      bytes = goodbye.encode(context_);
      worker_->send(*peers_[rank].endpoint, bytes, {}, false, told);
    }
    worker_->close();
    moveUntil([&] { return worker_->closed(); });
  }
  worker_.reset();
}

bool Channels::progress() noexcept {
  {
    const std::lock_guard lock(lock_);
    if (!worker_) return false;
    if (move()) {
      idle_ = 0;
      return true;
    }
    if (++idle_ % kUcxVisit != 0) return false;
  }
  Company::visit(this);
  return false;
}

/// The worker's last callbacks find no box, so they send nothing. The ports keep their boxes alive.
void Channels::abandon() noexcept {
  if (maker_.elsewhere()) return;
  const std::lock_guard lock(lock_);
  for (const auto& [key, box] : outboxes_) {
    skipDone(*box);
    cut_ |= box->pending() > 0;
  }
  for (const auto& [key, box] : inboxes_) cut_ |= box->fetched.pending;
  if (!cut_ || !worker_) return;
  for (const auto& [key, box] : inboxes_) dropKept(*box);
  outboxes_.clear();
  inboxes_.clear();
  waiting_.clear();
  for (Peer& one : peers_) {
    if (one.end.empty()) one.end = "the communicator has failed";
    one.drained = true;
  }
  worker_.reset();
}

void Channels::dropKept(Inbox& box) noexcept {
  for (Inbox::Place& place : box.places)
    if (void* const kept = std::exchange(place.kept, nullptr); place.taken && kept)
      worker_->drop(kept);
}

bool Channels::move() noexcept {
  bool moved = worker_->progress();
  if (!unpaid_.empty()) {
    std::vector<Inbox*> unpaid;
    unpaid.swap(unpaid_);
    for (Inbox* box : unpaid) credit(*box);
  }
  if (!moved && undrained_) {
    undrained_ = false;
    for (Peer& one : peers_) one.drained |= !one.end.empty();
    moved = true; // there is an error to be found
  }
  return moved;
}

void Channels::broke(int rank, bool silent, const char* why) noexcept {
  Peer& one = peer(rank);
  if (!one.end.empty()) return;
  one.end = why;
  one.silent = silent;
  undrained_ = true;
}

/// Whether no more messages can arrive from the peer.
bool Channels::over(const EndSettings& settings) {
  const Peer& one = peer(settings.peer);
  return !one.end.empty() && one.drained;
}

void Channels::fail(const EndSettings& settings, const char* why) {
  const Peer& one = peer(settings.peer);
  throw Error(one.silent ? ErrorCode::unresponsive : ErrorCode::peer_dead,
              settings.channel + ": rank " + std::to_string(settings.peer) + ": " +
                  (one.end.empty() ? why : one.end),
              settings.peer);
}

/// False: UCX cannot reach the peer.
bool Channels::connect(const EndSettings& settings, std::span<const std::byte> address) {
  Peer& one = peer(settings.peer);
  if (!worker_) return false;
  if (one.endpoint) return true;
  std::string why;
  one.endpoint = worker_->connect(settings.peer, address, why);
  if (!one.endpoint) broke(settings.peer, false, why.c_str());
  return one.endpoint != nullptr;
}

std::shared_ptr<Outbox> Channels::openOutbox(const EndSettings& settings,
                                             std::span<const std::byte> address) {
  auto box = std::make_shared<Outbox>();
  box->settings = settings;
  box->key = base::randomNumber();
  box->queue.resize(static_cast<std::size_t>(settings.size.depth));
  Greeting hello;
  hello.word = Word::hello;
  hello.src = settings.id.src;
  hello.dst = settings.id.dst;
  hello.index = settings.id.index;
  hello.sender_key = box->key;
  box->hello = hello.encode(context_);
  const std::lock_guard lock(lock_);
  outboxes_[box->key] = box;
  if (connect(settings, address))
    worker_->send(*peer(settings.peer).endpoint, box->hello, {}, false, box->greeted);
  return box;
}

std::shared_ptr<Inbox> Channels::openInbox(const EndSettings& settings,
                                           std::span<const std::byte> address) {
  auto box = std::make_shared<Inbox>();
  box->settings = settings;
  box->key = base::randomNumber();
  const Source source{settings.id.src, settings.id.index};
  const std::lock_guard lock(lock_);
  inboxes_[box->key] = box;
  const auto hello = hellos_.find(source);
  if (!connect(settings, address)) return box;
  if (hello == hellos_.end()) {
    waiting_[source] = box;
    return box;
  }
  box->sender_key = hello->second;
  welcome(*box);
  return box;
}

bool Channels::connected(const Outbox& box) { return connected(box.settings, box.welcome); }
bool Channels::connected(const Inbox& box) { return connected(box.settings, box.met); }

bool Channels::connected(const EndSettings& settings, const bool& met) {
  progress();
  const std::lock_guard lock(lock_);
  if (met || !over(settings)) return met;
  const Peer& one = peer(settings.peer);
  throw Error(!one.endpoint ? ErrorCode::transport // UCX could not reach it
              : one.silent  ? ErrorCode::unresponsive
                            : ErrorCode::peer_dead,
              "rank " + std::to_string(settings.peer) + ": " + one.end);
}

void Channels::leave(const std::shared_ptr<Outbox>& box) noexcept {
  if (maker_.elsewhere()) return;
  const std::lock_guard lock(lock_);
  skipDone(*box);
  cut_ |= box->pending() > 0;
  // A box that stays here has messages without a receipt; end() waits for it.
  if (box->pending() > 0 || box->received()) outboxes_.erase(box->key);
  left_.push_back(box);
}

void Channels::leave(const std::shared_ptr<Inbox>& box) noexcept {
  if (maker_.elsewhere()) return;
  const std::lock_guard lock(lock_);
  cut_ |= box->fetched.pending;
  if (worker_) dropKept(*box);
  // Tells the sender that no receipt will come. Otherwise it would wait for one when it closes.
  if (box->met && peer(box->settings.peer).end.empty()) {
    box->closing = Short{Word::closed, 0, box->sender_key, 0, 0}.encode();
    worker_->send(*peer(box->settings.peer).endpoint, box->closing, {}, false, box->closed);
  }
  inboxes_.erase(box->key);
  std::erase_if(waiting_, [&](const auto& entry) { return entry.second == box; });
  left_.push_back(box);
}

bool Channels::arrived(const Arrival& arrival) noexcept {
  try {
    return take(arrival);
  } catch (const std::exception& error) {
    base::log(LogLevel::error, "ucx: a message is lost: ", error.what());
    return false;
  }
}

/// Handles a message. Messages that no channel expects, or whose proof is wrong, are dropped.
bool Channels::take(const Arrival& arrival) {
  if (arrival.header.size() == kShortHeader) {
    const Short header = Short::decode(arrival.header.first<kShortHeader>());
    if (header.word == Word::body) return takeBody(header, arrival);
    if (header.word == Word::credit) takeCredit(header);
    if (header.word == Word::closed) takeClosed(header);
  } else if (Greeting greeting; greeting.decode(arrival.header, context_)) {
    takeGreeting(greeting);
  }
  return false;
}

void Channels::takeGreeting(const Greeting& greeting) {
  const auto valid = [this](int rank) { return rank >= 0 && rank < context_.size; };
  if (greeting.word == Word::welcome) {
    const auto found = outboxes_.find(greeting.sender_key);
    if (found == outboxes_.end()) return;
    Outbox& box = *found->second;
    if (box.settings.id.src != greeting.src || box.settings.id.dst != greeting.dst ||
        box.settings.id.index != greeting.index)
      return;
    box.receiver_key = greeting.receiver_key;
    box.welcome = true;
    return;
  }
  if (greeting.dst != context_.rank || greeting.src == context_.rank || !valid(greeting.src))
    return;
  if (greeting.word == Word::goodbye) {
    broke(greeting.src, false, "it has left");
    return;
  }
  if (greeting.word != Word::hello || greeting.index < 0 ||
      greeting.index > ChannelId::kPointToPoint)
    return;
  const Source source{greeting.src, greeting.index};
  if (!hellos_.emplace(source, greeting.sender_key).second) return;
  if (const auto found = waiting_.extract(source); !found.empty()) {
    found.mapped()->sender_key = greeting.sender_key;
    welcome(*found.mapped());
  }
}

void Channels::welcome(Inbox& box) {
  Greeting greeting;
  greeting.word = Word::welcome;
  greeting.src = box.settings.id.src;
  greeting.dst = box.settings.id.dst;
  greeting.index = box.settings.id.index;
  greeting.sender_key = box.sender_key;
  greeting.receiver_key = box.key;
  box.welcome = greeting.encode(context_);
  worker_->send(*peer(box.settings.peer).endpoint, box.welcome, {}, false, box.greeted);
  box.met = true;
}

} // namespace rondo::transport::ucx
