// All channels of one rank over UCX: one worker, one connection to each peer, and the messages in
// flight in both directions.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/fork.h"
#include "transports/registry.h"
#include "transports/ucx/module/module.h"
#include "transports/ucx/spin_lock.h"
#include "transports/ucx/wire.h"

namespace rondo::transport::ucx {

/// Properties of a channel that both ends need.
struct EndSettings {
  std::string channel; ///< for errors: "ucx channel 0 -> 1 (index 0)"
  ChannelId id;
  int peer = -1;
  ChannelSize size;
};

/// The sending end. Protected by the lock of its Channels. But only the thread that uses the end
/// changes its pending messages, so that thread may read them without the lock.
struct Outbox {
  struct Message {
    std::uint64_t signature = 0;
    std::uint32_t checksum = 0;
    std::size_t bytes = 0;
    std::vector<Piece> body; ///< keeps its capacity, so that sending does not allocate
    std::array<std::byte, kShortHeader> header{};
    Operation sent;
  };

  EndSettings settings;
  std::uint64_t key = 0, receiver_key = 0;
  bool welcome = false;
  std::vector<Message> queue; ///< sized for the most that can be pending
  /// Message numbers: oldest pending, next to send, next to start.
  std::uint64_t begin = 0, issued = 0, end = 0;
  /// Number of messages that the receiver has received, and how many it must have received before
  /// this rank may close: UCX reports a large message as sent before the receiver has all of it,
  /// and a goodbye may overtake the rest.
  std::uint32_t done_with = 0, needed = 0;
  bool closed = false; ///< the receiver will receive no more
  Greeting::Bytes hello{};
  Operation greeted;

  std::size_t pending() const { return static_cast<std::size_t>(end - begin); }
  Message& message(std::uint64_t number) { return queue[number % queue.size()]; }
  bool received() const { return closed || static_cast<std::int32_t>(needed - done_with) <= 0; }
};

/// The receiving end. Protected by the lock of its Channels.
struct Inbox {
  /// A message that has arrived and was not received yet.
  struct Place {
    bool taken = false;
    bool announced = false; ///< its body is still with the sender
    MessageHeader header;
    void* kept = nullptr;        ///< memory of UCX with the body, or null:
    std::vector<std::byte> copy; ///< the body itself
  };

  EndSettings settings;
  std::uint64_t key = 0, sender_key = 0;
  bool met = false; ///< the sender's hello has arrived
  std::array<Place, kUcxWindow> places;
  std::uint32_t next = 0;     ///< number of the next message to receive
  std::uint32_t credited = 0; ///< the last number that was sent to the sender
  std::string wrong;          ///< the sender's violation of the protocol, if any
  bool fetching = false;      ///< the next message's body is being fetched
  std::vector<Piece> into;
  Greeting::Bytes welcome{};
  std::array<std::byte, kShortHeader> receipt{}, closing{};
  Operation fetched, greeted, paid, closed;

  Place& place(std::uint32_t number) { return places[number % kUcxWindow]; }
};

/// Any thread may open and use ends. Destroying an end does not wait for its pending messages, nor
/// for a body that is being received: UCX may use their memory until this object is destroyed. The
/// destructor then closes all connections by force, and what has not been sent is lost.
///
/// UCX moves nothing unless it is polled, not even the rest of what it has taken. So a thread that
/// finds nothing to do polls the other workers of its process, whose own threads may be waiting
/// elsewhere.
class Channels final : public Worker, private Events {
 public:
  /// Throws Error(unsupported) if UCX cannot make a worker.
  Channels(Module& module, const Settings& settings, Context context);
  ~Channels() override;
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  /// The address of the UCX worker; made once.
  const std::vector<std::byte>& address() const { return address_; }

  bool progress() noexcept override;
  /// Destroys the worker if UCX may access memory of a message.
  void abandon() noexcept override;

  /// If UCX cannot reach the peer, connected() reports it.
  std::shared_ptr<Outbox> openOutbox(const EndSettings& settings,
                                     std::span<const std::byte> address);
  std::shared_ptr<Inbox> openInbox(const EndSettings& settings, std::span<const std::byte> address);
  /// Whether the other end is open. Throws Error(transport).
  bool connected(const Outbox& box);
  bool connected(const Inbox& box);
  void leave(const std::shared_ptr<Outbox>& box) noexcept;
  void leave(const std::shared_ptr<Inbox>& box) noexcept;

  // The functions of NetworkSender and NetworkReceiver.
  bool start(Outbox& box, const MessageHeader& header, std::span<const ConstBytes> body);
  bool settle(Outbox& box);
  std::size_t pending(Outbox& box);
  bool reads(const Outbox& box, const void* data, std::size_t size);
  const MessageHeader* peek(Inbox& box);
  bool receive(Inbox& box, std::span<const MutableBytes> body);

 private:
  struct Peer {
    Endpoint* endpoint = nullptr;
    std::string end; ///< why no more messages arrive; empty: they may
    bool silent = false;
    /// All messages from before the end have been handled. UCX reports the end before them.
    bool drained = false;
  };
  /// Source and index of a channel that ends at this rank.
  using Source = std::pair<int, int>;
  class Company;

  bool arrived(const Arrival& arrival) noexcept override;
  void broke(int peer, bool silent, const char* why) noexcept override;
  bool move() noexcept;
  bool connect(const EndSettings& settings, std::span<const std::byte> address);
  bool take(const Arrival& arrival);
  bool takeBody(const Short& header, const Arrival& arrival);
  void takeCredit(const Short& header);
  void takeClosed(const Short& header);
  void takeGreeting(const Greeting& greeting);
  void welcome(Inbox& box);
  void credit(Inbox& box);
  void issue(Outbox& box);
  static void skipDone(Outbox& box) noexcept;
  void reap(Outbox& box);
  void done(Inbox& box);
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  bool connected(const EndSettings& settings, const bool& met);
  bool over(const EndSettings& settings);
  [[noreturn]] void fail(const EndSettings& settings, const char* why);
  void dropKept(Inbox& box) noexcept;
  void end() noexcept;

  const base::Maker maker_;
  const Context context_;
  mutable SpinLock lock_;
  std::vector<Peer> peers_;
  std::map<Source, std::uint64_t> hellos_;           ///< the senders' keys, from all hellos so far
  std::map<Source, std::shared_ptr<Inbox>> waiting_; ///< opened, waiting for a hello
  std::unordered_map<std::uint64_t, std::shared_ptr<Outbox>> outboxes_; ///< by their keys
  std::unordered_map<std::uint64_t, std::shared_ptr<Inbox>> inboxes_;
  std::vector<Inbox*> unpaid_; ///< inboxes whose credit could not be sent
  /// Closed ends that UCX still uses for an operation.
  std::vector<std::shared_ptr<void>> left_;
  bool cut_ = false;       ///< a pending message's memory must not be accessed any more
  bool undrained_ = false; ///< a connection has ended since the last poll without progress
  std::uint32_t idle_ = 0; ///< consecutive polls without progress
  std::vector<std::byte> address_;
  /// Null after abandon() has destroyed it. Last member, so that it is destroyed first.
  std::unique_ptr<UcpWorker> worker_;
};

} // namespace rondo::transport::ucx
