// Implements the thread that matches messages to receives, and keeps messages without a receive.
// Longer than 500 lines, because receives and the thread change the same state under one mutex.
#include "compat/torch/messages.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compat/torch/interpreter.h"
#include "rondo/error.h"

namespace rondo::compat {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

/// The thread's shortest and longest sleep between two polls. The sleep doubles while no message
/// arrives.
constexpr microseconds kShortestRest{20}, kLongestRest{500};
/// Number of polls before the first sleep.
constexpr int kRestlessLooks = 50;

/// Sent before each tagged message.
struct Header {
  std::int64_t tag = 0, count = 0, type = 0;
};
constexpr std::size_t kHeaderWords = sizeof(Header) / sizeof(std::int64_t);

std::string seconds(milliseconds time) {
  const auto tenths = (time.count() + 50) / 100;
  return std::to_string(tenths / 10) +
         (tenths % 10 ? "." + std::to_string(tenths % 10) : std::string()) + " s";
}

std::string elements(std::size_t count, DataType type) {
  return std::to_string(count) + " elements of " + std::string(name(type));
}

} // namespace

struct Message::State {
  bool done = false;
  std::optional<Error> error;
  int from = kAnyRank;
};

/// The state that Messenger, its thread and the Messages share.
class Mailroom {
 public:
  Mailroom(Communicator& plain, Communicator tagged)
      : plain_(plain),
        tagged_(std::move(tagged)),
        arriving_(static_cast<std::size_t>(tagged_.size())),
        gone_(arriving_.size()),
        tagged_gone_(arriving_.size()) {}

  void main();
  void stop();
  void post(const std::shared_ptr<Message>& message);
  bool wait(Message& message, std::optional<milliseconds> limit);
  void giveUp(Message& message, milliseconds after);
  void cancel(const Message& message);
  template <class Read>
  auto read(const Read& what) const {
    const std::lock_guard lock(mutex_);
    return what();
  }
  bool pendingUntagged() const;
  void abort(const std::string& reason);

  Communicator& tagged() { return tagged_; }
  std::atomic<milliseconds> timeout{milliseconds(0)};

 private:
  /// A message that arrived before its receive was called.
  struct Kept {
    Header header;
    int from = 0;
    std::vector<std::byte> body;
    bool complete = false;
    std::shared_ptr<Message> claimed; ///< the receive that matched it before it was complete
  };
  /// The body of a message that is being received.
  struct Arriving {
    rondo::Work work;
    std::shared_ptr<Message> message; ///< null: the body goes to `kept`
    std::shared_ptr<Kept> kept;
    int from = 0;
  };
  using Posted = std::list<std::shared_ptr<Message>>;

  bool step();
  bool stepTagged();
  bool stepPlain();
  void startTagged(int peer);
  bool finishArrived(std::optional<Arriving>& arriving);
  bool wants(int peer) const;
  bool arrived(Communicator& at, std::vector<bool>& gone, int peer);
  void endHopeless();
  [[nodiscard]] std::optional<Error> deliver(Kept& kept, Message& message);
  void end(Message& message, int from, const std::optional<Error>& error = {});
  void fail(const Error& error);
  std::shared_ptr<Message> match(const Header& header, int from);
  static bool fits(const Message& message, std::int64_t tag, int from) {
    return message.wanted_.tag == tag &&
           (message.wanted_.source == Message::kAnyRank || message.wanted_.source == from);
  }
  static std::optional<Error> differs(const Message& message, const Header& header, int from);
  bool busy() const;

  Communicator& plain_;
  Communicator tagged_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::optional<Error> failed_;
  Posted posted_;                                 ///< in the order of the calls
  std::list<std::shared_ptr<Kept>> kept_;         ///< in the order of arrival
  std::vector<std::optional<Arriving>> arriving_; ///< tagged, by rank
  std::deque<std::optional<Arriving>> plain_arriving_;
  std::vector<bool> gone_, tagged_gone_; ///< ranks that have left and have no more messages
};

// Receives ----------------------------------------------------------------------------------------

Message::Message(std::shared_ptr<Mailroom> room, Wanted wanted)
    : room_(std::move(room)), wanted_(std::move(wanted)), state_(std::make_unique<State>()) {}

Message::~Message() = default;

void Message::wait() { room_->wait(*this, std::nullopt); }

bool Message::waitFor(milliseconds limit) { return room_->wait(*this, limit); }

void Message::giveUp(milliseconds after) { room_->giveUp(*this, after); }

void Message::cancel() { room_->cancel(*this); }

bool Message::done() const {
  return room_->read([this] { return state_->done; });
}

int Message::from() const {
  return room_->read([this] { return state_->from; });
}

void Mailroom::post(const std::shared_ptr<Message>& message) {
  std::unique_lock lock(mutex_);
  if (failed_) return end(*message, Message::kAnyRank, failed_);
  if (message->wanted_.tag != 0)
    for (auto at = kept_.begin(); at != kept_.end(); ++at) {
      Kept& kept = **at;
      if (kept.claimed || !fits(*message, kept.header.tag, kept.from)) continue;
      kept.claimed = message;
      if (!kept.complete) return;
      const auto wrong = deliver(kept, *message);
      kept_.erase(at);
      if (!wrong) return;
      fail(*wrong);
      lock.unlock();
      return abort(wrong->what());
    }
  posted_.push_back(message);
  changed_.notify_all();
}

bool Mailroom::wait(Message& message, std::optional<milliseconds> limit) {
  std::unique_lock lock(mutex_);
  const auto done = [&] { return message.state_->done; };
  const milliseconds patience = limit.value_or(timeout.load());
  if (!changed_.wait_for(lock, patience, done)) {
    if (limit) return false;
    lock.unlock();
    giveUp(message, patience);
    lock.lock();
    changed_.wait(lock, done);
  }
  if (message.state_->error) throw Error(*message.state_->error);
  return true;
}

void Mailroom::giveUp(Message& message, milliseconds after) {
  const Message::Wanted& wanted = message.wanted_;
  std::string text = "Recv";
  if (wanted.tag != 0) text += " with tag " + std::to_string(wanted.tag);
  text += wanted.source == Message::kAnyRank ? " from any rank"
                                             : " from rank " + std::to_string(wanted.source);
  text += " timed out after " + seconds(after) + ": no matching message arrived";
  const std::lock_guard lock(mutex_);
  if (message.state_->done) return;
  fail(Error(ErrorCode::timeout, text, wanted.source));
  if (!stopping_) abort(text); // afterwards the group's communicator may not exist
}

void Mailroom::cancel(const Message& message) {
  const std::lock_guard lock(mutex_);
  std::erase_if(posted_, [&](const auto& one) { return one.get() == &message; });
  for (const auto& kept : kept_)
    if (kept->claimed.get() == &message) kept->claimed = nullptr;
}

bool Mailroom::pendingUntagged() const {
  return read([this] {
    return std::any_of(posted_.begin(), posted_.end(),
                       [](const auto& message) { return message->wanted_.tag == 0; });
  });
}

void Mailroom::abort(const std::string& reason) {
  tagged_.abort(reason);
  plain_.abort(reason);
}

// The thread. The mutex is held except where a function unlocks it --------------------------------

bool Mailroom::busy() const {
  return !plain_arriving_.empty() ||
         std::any_of(arriving_.begin(), arriving_.end(), [](const auto& one) { return one; });
}

void Mailroom::main() {
  std::unique_lock lock(mutex_);
  int looks = 0;
  microseconds rest = kShortestRest;
  for (;;) {
    if (stopping_ && !failed_)
      fail(Error(ErrorCode::aborted, "the group was shut down before the message came"));
    if (stopping_ && !busy()) return;
    if (posted_.empty() && !busy()) {
      changed_.wait(lock);
      looks = 0, rest = kShortestRest;
      continue;
    }
    bool moved = false;
    try {
      moved = step();
    } catch (const Error& error) {
      fail(error);
      lock.unlock();
      abort(error.what());
      lock.lock();
    }
    if (moved) {
      looks = 0, rest = kShortestRest;
    } else if (++looks < kRestlessLooks) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    } else {
      changed_.wait_for(lock, rest);
      rest = std::min(rest * 2, kLongestRest);
    }
  }
}

void Mailroom::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

bool Mailroom::step() {
  bool moved = false;
  // First, also after a failure: receives wait for bodies in flight, which then end with an Error.
  std::optional<Error> wrong;
  const auto finish = [&](std::optional<Arriving>& arriving) {
    try {
      if (arriving) moved |= finishArrived(arriving);
    } catch (const Error& error) {
      moved = true;
      if (!wrong) wrong = error;
    }
  };
  for (auto& arriving : arriving_) finish(arriving);
  for (auto& arriving : plain_arriving_) finish(arriving);
  std::erase_if(plain_arriving_, [](const auto& one) { return !one; });
  if (failed_) return moved; // all receives have ended
  if (wrong) throw Error(*wrong);
  if (const auto failure = plain_.failure()) throw Error(*failure);
  moved |= stepTagged();
  moved |= stepPlain();
  endHopeless();
  return moved;
}

/// Whether a message of the rank has arrived. A rank that has left is not an error, since the
/// message may come from another rank.
bool Mailroom::arrived(Communicator& at, std::vector<bool>& gone, int peer) {
  const auto index = static_cast<std::size_t>(peer);
  if (gone[index]) return false;
  try {
    return at.arrived(peer);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::peer_dead) throw;
    gone[index] = true;
    return false;
  }
}

/// Throws Error(peer_dead) if a receive waits for a message that only ranks that have left could
/// send.
void Mailroom::endHopeless() {
  for (const auto& message : posted_) {
    const Message::Wanted& wanted = message->wanted_;
    const std::vector<bool>& gone = wanted.tag == 0 ? gone_ : tagged_gone_;
    bool hope = false;
    for (int peer = 0; peer < plain_.size(); ++peer)
      hope |= peer != plain_.rank() && fits(*message, wanted.tag, peer) &&
              !gone[static_cast<std::size_t>(peer)];
    if (!hope)
      throw Error(ErrorCode::peer_dead,
                  (wanted.source == Message::kAnyRank ? std::string("all ranks")
                                                      : "rank " + std::to_string(wanted.source)) +
                      " left before a message came that this rank waits for",
                  wanted.source);
  }
}

/// Whether a pending receive could match a tagged message of this rank.
bool Mailroom::wants(int peer) const {
  return std::any_of(posted_.begin(), posted_.end(), [peer](const auto& message) {
    return message->wanted_.tag != 0 && fits(*message, message->wanted_.tag, peer);
  });
}

bool Mailroom::stepTagged() {
  bool moved = false;
  for (int peer = 0; peer < tagged_.size(); ++peer) {
    if (arriving_[static_cast<std::size_t>(peer)] || peer == tagged_.rank() || !wants(peer) ||
        !arrived(tagged_, tagged_gone_, peer))
      continue;
    startTagged(peer);
    moved = true;
  }
  return moved;
}

/// Receives a header, and starts to receive the body: into the matching receive's tensor, or into
/// memory that keeps it.
void Mailroom::startTagged(int peer) {
  Header header;
  tagged_.recv(&header, kHeaderWords, DataType::int64, peer);
  const auto count = static_cast<std::size_t>(header.count);
  const auto type = static_cast<DataType>(header.type);
  std::shared_ptr<Message> message = match(header, peer);
  if (message) {
    if (const auto wrong = differs(*message, header, peer)) {
      end(*message, peer, wrong);
      throw Error(*wrong);
    }
    auto work = tagged_.recvAsync(message->wanted_.into.data, count, type, peer);
    arriving_[static_cast<std::size_t>(peer)] = {std::move(work), std::move(message), nullptr,
                                                 peer};
    return;
  }
  auto kept = std::make_shared<Kept>(Kept{header, peer, {}, false, nullptr});
  kept->body.resize(count * sizeOf(type));
  kept_.push_back(kept);
  auto work = tagged_.recvAsync(kept->body.data(), count, type, peer);
  arriving_[static_cast<std::size_t>(peer)] = {std::move(work), nullptr, std::move(kept), peer};
}

bool Mailroom::stepPlain() {
  bool moved = false;
  std::set<int> looked_at; // polled for an earlier receive, which gets the next message first
  for (auto at = posted_.begin(); at != posted_.end();) {
    const std::shared_ptr<Message> message = *at;
    const Message::Wanted& wanted = message->wanted_;
    bool started = false;
    for (int peer = 0; wanted.tag == 0 && peer < plain_.size() && !started; ++peer) {
      if (peer == plain_.rank() || !fits(*message, 0, peer) || looked_at.count(peer)) continue;
      if (!arrived(plain_, gone_, peer)) {
        looked_at.insert(peer);
        continue;
      }
      auto work = plain_.recvAsync(wanted.into.data, wanted.into.count, wanted.into.type, peer);
      plain_arriving_.push_back(Arriving{std::move(work), message, nullptr, peer});
      started = true;
    }
    at = started ? posted_.erase(at) : std::next(at);
    moved |= started;
  }
  return moved;
}

/// If the body is complete, finishes the message, resets `arriving` and returns true.
bool Mailroom::finishArrived(std::optional<Arriving>& arriving) {
  if (!arriving->work.test()) return false;
  Arriving arrived = std::move(*arriving);
  arriving.reset();
  try {
    arrived.work.wait();
  } catch (const Error& error) {
    if (arrived.message) end(*arrived.message, arrived.from, error);
    throw;
  }
  if (arrived.message) {
    end(*arrived.message, arrived.from);
    return true;
  }
  if (failed_) return true; // the receives have ended
  arrived.kept->complete = true;
  if (!arrived.kept->claimed) return true;
  kept_.remove(arrived.kept);
  if (const auto wrong = deliver(*arrived.kept, *arrived.kept->claimed)) throw Error(*wrong);
  return true;
}

std::shared_ptr<Message> Mailroom::match(const Header& header, int from) {
  const auto found = std::find_if(posted_.begin(), posted_.end(), [&](const auto& message) {
    return fits(*message, header.tag, from);
  });
  if (found == posted_.end()) return nullptr;
  std::shared_ptr<Message> message = *found;
  posted_.erase(found);
  return message;
}

std::optional<Error> Mailroom::differs(const Message& message, const Header& header, int from) {
  const Array& into = message.wanted_.into;
  const auto count = static_cast<std::size_t>(header.count);
  const auto type = static_cast<DataType>(header.type);
  if (into.count == count && into.type == type) return std::nullopt;
  return Error(ErrorCode::mismatch,
               "rank " + std::to_string(from) + " sent " + elements(count, type) + " with tag " +
                   std::to_string(header.tag) + ", but the receive expects " +
                   elements(into.count, into.type),
               from);
}

std::optional<Error> Mailroom::deliver(Kept& kept, Message& message) {
  auto wrong = differs(message, kept.header, kept.from);
  if (!wrong && !kept.body.empty())
    std::memcpy(message.wanted_.into.data, kept.body.data(), kept.body.size());
  end(message, kept.from, wrong);
  return wrong;
}

void Mailroom::end(Message& message, int from, const std::optional<Error>& error) {
  Message::State& state = *message.state_;
  if (state.done) return;
  state.from = from;
  state.error = error;
  state.done = true;
  changed_.notify_all();
}

/// Ends all pending receives with the error. Bodies in flight end with their communicator.
void Mailroom::fail(const Error& error) {
  if (!failed_) failed_ = error;
  for (const auto& message : posted_) end(*message, Message::kAnyRank, failed_);
  posted_.clear();
  for (const auto& kept : kept_)
    if (kept->claimed) end(*kept->claimed, kept->from, failed_);
}

// Messenger ---------------------------------------------------------------------------------------

Messenger::Messenger(Communicator& plain, Communicator tagged)
    : room_(std::make_shared<Mailroom>(plain, std::move(tagged))), process_(::getpid()) {}

Messenger::~Messenger() {
  if (!thread_.joinable()) return;
  if (::getpid() != process_) {
    // Leaks the object instead of joining or detaching: in the child, another thread may have the
    // same handle.
    static_cast<void>(std::make_unique<std::thread>(std::move(thread_)).release());
    return;
  }
  room_->stop();
  const WithoutInterpreter tensors_may_end;
  thread_.join();
}

void Messenger::setTimeout(milliseconds timeout) {
  room_->timeout = timeout;
  room_->tagged().setTimeout(timeout);
}

void Messenger::abort(const std::string& reason) { room_->abort(reason); }

rondo::Work Messenger::send(const Array& from, int to, int tag, std::shared_ptr<void>& memory) {
  const auto header = std::make_shared<Header>(
      Header{tag, static_cast<std::int64_t>(from.count), static_cast<std::int64_t>(from.type)});
  memory = header;
  Group together;
  room_->tagged().send(header.get(), kHeaderWords, DataType::int64, to);
  room_->tagged().send(from.data, from.count, from.type, to);
  return together.start();
}

std::shared_ptr<Message> Messenger::receive(const Message::Wanted& wanted) {
  std::call_once(started_, [this] {
    sigset_t all, before; // leave signals to the program's threads
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([room = room_] { room->main(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  });
  auto message = std::make_shared<Message>(room_, wanted);
  room_->post(message);
  return message;
}

bool Messenger::pendingUntagged() const { return room_->pendingUntagged(); }

} // namespace rondo::compat
