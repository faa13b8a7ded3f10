// All channels of one rank over UCX: one worker, one connection to each peer, and what is on its
// way in either direction.
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

/// What an end knows of its channel.
struct EndSettings {
  std::string channel; ///< for errors: "ucx channel 0 -> 1 (index 0)"
  ChannelId id;
  int peer = -1;
  ChannelSize size;
};

/// The sending end. Under the lock of its Channels; but only the thread that uses it changes what
/// is pending, so that thread may look at it without.
struct Outbox {
  struct Message {
    std::uint64_t signature = 0;
    std::size_t bytes = 0;
    std::vector<Piece> body; ///< keeps its capacity: no allocation in the steady state
    std::array<std::byte, kShortHeader> header{};
    Operation sent;
  };

  EndSettings settings;
  std::uint64_t key = 0, receiver_key = 0;
  bool welcome = false;
  std::vector<Message> queue;                   ///< as many as can be pending
  std::uint64_t begin = 0, issued = 0, end = 0; ///< numbers of messages: pending, not yet sent
  std::uint32_t done_with = 0;                  ///< by the receiver
  Greeting::Bytes hello{};
  Operation greeted;

  std::size_t pending() const { return static_cast<std::size_t>(end - begin); }
  Message& message(std::uint64_t number) { return queue[number % queue.size()]; }
};

/// The receiving end. Under the lock of its Channels.
struct Inbox {
  /// A message that has come and was not received.
  struct Place {
    bool taken = false;
    bool announced = false; ///< its body is still with the sender
    MessageHeader header;
    void* kept = nullptr;        ///< UCX's, or null:
    std::vector<std::byte> copy; ///< the body itself
  };

  EndSettings settings;
  std::uint64_t key = 0, sender_key = 0;
  bool met = false; ///< the sender has said hello
  std::array<Place, kUcxWindow> places;
  std::uint32_t next = 0;     ///< number of the next message to receive
  std::uint32_t credited = 0; ///< what the sender was told of it
  std::string wrong;          ///< what the sender may not do, and did
  bool fetching = false;      ///< the next message's body
  std::vector<Piece> into;
  Greeting::Bytes welcome{};
  std::array<std::byte, kShortHeader> receipt{};
  Operation fetched, greeted, paid;

  Place& place(std::uint32_t number) { return places[number % kUcxWindow]; }
};

/// Ends may be opened and used by any thread. What they hold in user memory is theirs again when
/// they are gone, but for what is pending: that is cut off with the connection, unsent.
///
/// UCX moves nothing unless it is asked to, also not the end of what it has taken over. So a thread
/// that finds nothing to do looks after the other workers of its process, whose threads may be gone
/// to wait elsewhere.
class Channels final : public Worker, private Events {
 public:
  /// Throws Error(unsupported) when UCX makes no worker.
  Channels(Module& module, const Settings& settings, Context context);
  ~Channels() override;
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  /// UCX's own; made once.
  const std::vector<std::byte>& address() const { return address_; }

  bool progress() noexcept override;

  /// Where UCX does not reach the peer, connected() says so.
  std::shared_ptr<Outbox> openOutbox(const EndSettings& settings,
                                     std::span<const std::byte> address);
  std::shared_ptr<Inbox> openInbox(const EndSettings& settings, std::span<const std::byte> address);
  /// Whether the other end is there. Throws Error(transport).
  bool connected(const Outbox& box);
  bool connected(const Inbox& box);
  void leave(const std::shared_ptr<Outbox>& box) noexcept;
  void leave(const std::shared_ptr<Inbox>& box) noexcept;

  // What the ends do; see CarrierSender and CarrierReceiver.
  bool start(Outbox& box, const MessageHeader& header, std::span<const ConstBytes> body);
  bool settle(Outbox& box);
  std::size_t pending(Outbox& box);
  bool reads(const Outbox& box, const void* data, std::size_t size);
  const MessageHeader* peek(Inbox& box);
  bool receive(Inbox& box, std::span<const MutableBytes> body);

 private:
  struct Peer {
    Endpoint* endpoint = nullptr;
    std::string end; ///< why nothing more comes; empty: it may
    bool silent = false;
    /// All that came before the end has been seen: UCX tells of ends ahead of messages.
    bool drained = false;
  };
  /// Source and index of a channel that ends here.
  using Source = std::pair<int, int>;
  class Company;

  bool arrived(const Arrival& arrival) noexcept override;
  void broke(int peer, bool silent, const char* why) noexcept override;
  bool move() noexcept;
  bool connect(const EndSettings& settings, std::span<const std::byte> address);
  bool take(const Arrival& arrival);
  bool takeBody(const Short& header, const Arrival& arrival);
  void takeCredit(const Short& header);
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
  void end() noexcept;

  const base::Maker maker_;
  const Context context_;
  mutable SpinLock lock_;
  std::vector<Peer> peers_;
  std::map<Source, std::uint64_t> hellos_;           ///< the senders' keys, of all that have come
  std::map<Source, std::shared_ptr<Inbox>> waiting_; ///< opened, by what their hello will say
  std::unordered_map<std::uint64_t, std::shared_ptr<Outbox>> outboxes_; ///< by their keys
  std::unordered_map<std::uint64_t, std::shared_ptr<Inbox>> inboxes_;
  std::vector<Inbox*> unpaid_; ///< whose credit could not leave
  /// Ends that are gone while UCX still has an operation of theirs.
  std::vector<std::shared_ptr<void>> left_;
  bool cut_ = false;       ///< something is pending whose memory must not be touched any more
  bool undrained_ = false; ///< a connection has ended since the last look in vain
  std::uint32_t idle_ = 0; ///< looks in vain, one after another
  std::vector<std::byte> address_;
  std::unique_ptr<UcpWorker> worker_; ///< last: it ends first
};

} // namespace rondo::transport::ucx
