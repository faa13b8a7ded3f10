// Ranks of a transport in one process, and functions to send and receive over any kind of port.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <variant>
#include <vector>

#include "transports/registry.h"
#include "transports/slot_ring.h"
#include "transports/transport.h"

namespace rondo::test {

using namespace transport;
using Bytes = std::vector<std::byte>;

/// Throws if nothing has moved for two minutes (see moved()): then something hangs.
class Watch {
 public:
  explicit Watch(const char* what) : what_(what) {}
  /// Also lets other threads run, because there may be more ranks than cores.
  void check() const;
  /// Something has moved: the time limit starts again.
  void moved() { end_ = std::chrono::steady_clock::now() + kLimit; }

 private:
  static constexpr std::chrono::seconds kLimit{120};
  const char* what_;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + kLimit;
};

/// Catch2's assertions may be used by one thread only; rank threads use this.
inline void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

/// Runs the functions as threads. Rethrows the first exception when all have ended.
void inParallel(const std::vector<std::function<void()>>& functions);

/// Byte `at` of message `number`. The pattern detects exchanged messages or bytes.
inline std::byte pattern(std::uint64_t number, std::size_t at) {
  return static_cast<std::byte>((number * 167 + at * 31 + (at >> 8) * 7 + 13) & 0xff);
}
Bytes patternOf(std::uint64_t number, std::size_t size);
void requirePattern(std::uint64_t number, const std::byte* data, std::size_t size);

/// The port's path if it has this type; otherwise null.
template <class T>
T* pathOf(const Port& port) {
  if constexpr (std::is_same_v<T, SlotRing>) {
    const auto* slots = std::get_if<MappedSlots>(&port.path);
    return slots ? slots->ring.get() : nullptr;
  } else {
    const auto* end = std::get_if<std::unique_ptr<T>>(&port.path);
    return end ? end->get() : nullptr;
  }
}

/// The sending end, mapped or of a network channel, with the worker of its rank's transport, or
/// null.
class Out {
 public:
  explicit Out(std::unique_ptr<Port> port, Worker* worker = nullptr)
      : port_(std::move(port)),
        worker_(worker),
        ring_(pathOf<SlotRing>(*port_)),
        sender_(pathOf<NetworkSender>(*port_)) {}
  const Port& port() const { return *port_; }
  bool mapped() const { return ring_ != nullptr; }

  bool start(std::uint64_t signature, std::span<const ConstBytes> body);
  bool start(std::uint64_t signature, const Bytes& body) {
    const ConstBytes one{body.data(), body.size()};
    return start(signature, std::span(&one, 1));
  }
  std::size_t pending() const { return sender_ ? sender_->pending() : 0; }
  void progress() {
    if (worker_) worker_->progress();
    if (sender_) sender_->progress();
  }
  /// send(): waits until the message has started; its memory must not change. flush(): waits until
  /// nothing is pending.
  void send(std::uint64_t signature, const Bytes& body);
  void flush();

 private:
  std::unique_ptr<Port> port_;
  Worker* worker_;
  SlotRing* ring_;
  NetworkSender* sender_;
  std::deque<Bytes> kept_;
};

/// The receiving end.
class In {
 public:
  explicit In(std::unique_ptr<Port> port, Worker* worker = nullptr)
      : port_(std::move(port)),
        worker_(worker),
        ring_(pathOf<SlotRing>(*port_)),
        receiver_(pathOf<NetworkReceiver>(*port_)) {}
  const Port& port() const { return *port_; }

  const MessageHeader* peek() {
    if (worker_) worker_->progress();
    return ring_ ? ring_->readable() : receiver_->peek();
  }
  bool receive(std::span<const MutableBytes> body);
  /// Receives one complete message and sets `signature`.
  Bytes next(std::uint64_t& signature);

 private:
  std::unique_ptr<Port> port_;
  Worker* worker_;
  SlotRing* ring_;
  NetworkReceiver* receiver_;
};

std::unique_ptr<Port> wait(PendingPort& pending);

/// The transports between host memories that this build has, and one with the properties that they
/// do not have.
std::vector<Kind> conformingKinds();

/// The transports of all ranks of one communicator, made in this process.
class World {
 public:
  World(const Kind& kind, int ranks, const Options& options = {}, std::uint64_t communicator = 7);

  const Context& context(int rank) const { return contexts_[static_cast<std::size_t>(rank)]; }
  Transport& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  Address address(int rank) { return (*this)[rank].address(); }
  ChannelId id(int src, int dst, int index = 0) const {
    return {contexts_[0].communicator, src, dst, index};
  }
  std::unique_ptr<PendingPort> open(int rank, const ChannelId& channel) {
    return (*this)[rank].open(channel, address(rank == channel.src ? channel.dst : channel.src));
  }
  /// Opens both ends on this thread.
  std::pair<Out, In> connect(int src, int dst, int index = 0);
  /// Destroys the rank's transport.
  void remove(int rank) { ranks_[static_cast<std::size_t>(rank)].reset(); }

 private:
  std::vector<Context> contexts_;
  std::vector<std::unique_ptr<Transport>> ranks_;
};

/// A context like that of a communicator of this process: loopback, a secret, a board.
Context makeContext(int rank, int ranks, std::uint64_t communicator, const Options& options,
                    const net::Secret& secret, std::shared_ptr<base::Board> board);

inline Options withSize(std::size_t channel_bytes, int depth) {
  Options options;
  options.channel_bytes = channel_bytes;
  options.channel_depth = depth;
  return options;
}

} // namespace rondo::test
