// The sending end: a queue of messages, and one place in it per socket.
#include <cassert>
#include <cstring>
#include <numeric>

#include "transports/tcp/socket_io.h"
#include "transports/tcp/stream.h"

namespace rondo::transport::tcp {
namespace {

/// Calls of progress() without progress from one look at the connection to the next: a look costs
/// about as much as a try to send, and sleepers try every few hundred microseconds.
constexpr std::uint64_t kLooksPerCheck = 64;

using WireHeader = std::array<std::byte, kHeaderBytes>;

WireHeader encode(const MessageHeader& header) {
  WireHeader out;
  for (std::size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<std::byte>(header.signature >> (8 * i));
    out[8 + i] = static_cast<std::byte>(header.bytes >> (8 * i));
  }
  return out;
}

class Sender final : public StreamSender {
 public:
  Sender(std::vector<base::UniqueFd> sockets, const StreamSettings& settings)
      : settings_(settings), queue_(static_cast<std::size_t>(settings.size.depth)) {
    for (auto& socket : sockets) lines_.push_back({std::move(socket)});
  }

  std::size_t pending() const override { return static_cast<std::size_t>(end_ - begin_); }

  bool start(const MessageHeader& header, std::span<const ConstBytes> body) override {
    assert(header.bytes <= settings_.size.slot_bytes);
    assert(header.bytes == std::accumulate(body.begin(), body.end(), std::size_t{0},
                                           [](std::size_t sum, const ConstBytes& piece) {
                                             return sum + piece.size;
                                           }));
    if (pending() == queue_.size()) {
      progress();
      if (pending() == queue_.size()) return false;
    }
    Message& message = at(end_++);
    message.header = encode(header);
    message.bytes = static_cast<std::size_t>(header.bytes);
    message.body.assign(body.begin(), body.end());
    if (message.bytes > 0 && message.bytes <= kGatherBytes) message.gather();
    progress();
    return true;
  }

  bool progress() override {
    if (begin_ == end_) return false;
    bool moved = false;
    std::uint64_t oldest = end_;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      moved |= flush(i);
      oldest = std::min(oldest, lines_[i].message);
    }
    begin_ = oldest;
    if (moved) fruitless_ = 0;
    else if (++fruitless_ % kLooksPerCheck == 0) check();
    return moved;
  }

  bool reads(const void* data, std::size_t size) const override {
    // As numbers: the ranges may belong to different objects.
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    for (std::uint64_t number = begin_; number != end_; ++number)
      for (const ConstBytes& piece : at(number).body) {
        const auto from = reinterpret_cast<std::uintptr_t>(piece.data);
        if (from < begin + size && begin < from + piece.size) return true;
      }
    return false;
  }

 private:
  struct Message {
    WireHeader header;
    std::array<std::byte, kGatherBytes> small; ///< a small body, right behind its header
    std::size_t bytes = 0;
    std::vector<ConstBytes> body; ///< keeps its capacity: no allocation in the steady state

    /// Takes a copy of the body.
    void gather() {
      std::byte* to = small.data();
      for (const ConstBytes& piece : body)
        if (piece.size > 0)
          to = static_cast<std::byte*>(std::memcpy(to, piece.data, piece.size)) + piece.size;
      body.assign(1, {small.data(), bytes});
    }
  };
  /// How far one socket is: `done` bytes of its share of message number `message`.
  struct Line {
    base::UniqueFd socket;
    std::uint64_t message = 0;
    std::size_t done = 0;
    base::Clock::time_point unanswered_since{}; ///< while progress() is fruitless
  };

  Message& at(std::uint64_t number) { return queue_[number % queue_.size()]; }
  const Message& at(std::uint64_t number) const { return queue_[number % queue_.size()]; }

  std::size_t share(const Message& message, std::size_t line) const {
    return (line == 0 ? kHeaderBytes : 0) + stripe(message.bytes, lines_.size(), line).size();
  }

  /// Adds the bytes of the message that the line has still to send. False: not all had room.
  bool gather(const Message& message, std::size_t line, std::size_t done, Pieces& pieces) const {
    Range range = stripe(message.bytes, lines_.size(), line);
    if (line == 0) {
      if (done < kHeaderBytes && !pieces.add(message.header.data() + done, kHeaderBytes - done))
        return false;
      range.begin += done - std::min(done, kHeaderBytes);
    } else {
      range.begin += done;
    }
    return pieces.add(std::span<const ConstBytes>(message.body), range);
  }

  bool flush(std::size_t index) {
    Line& line = lines_[index];
    for (bool moved = false;;) {
      Pieces pieces;
      std::size_t done = line.done;
      for (auto number = line.message; number != end_; ++number, done = 0)
        if (!gather(at(number), index, done, pieces)) break;
      const std::size_t sent = pieces.empty() ? 0 : sendSome(line.socket.get(), pieces, settings_);
      advance(line, index, sent);
      moved |= sent > 0;
      // A short count means that the socket is full: asking again would only be told so.
      if (sent < pieces.bytes() || line.message == end_) return moved;
    }
  }

  void check() {
    for (Line& line : lines_) {
      if (fruitless_ == kLooksPerCheck) line.unanswered_since = base::Clock::now();
      line.unanswered_since = checkAnswered(line.socket.get(), line.unanswered_since, settings_);
    }
  }

  void advance(Line& line, std::size_t index, std::size_t sent) {
    while (line.message != end_) {
      const std::size_t left = share(at(line.message), index) - line.done;
      if (sent < left) {
        line.done += sent;
        return;
      }
      sent -= left;
      ++line.message;
      line.done = 0;
    }
  }

  const StreamSettings settings_;
  std::vector<Message> queue_;
  std::vector<Line> lines_;
  std::uint64_t begin_ = 0, end_ = 0; ///< numbers of the pending messages
  std::uint64_t fruitless_ = 0;       ///< calls of progress() that moved nothing, one after another
};

} // namespace

std::unique_ptr<StreamSender> makeSender(std::vector<base::UniqueFd> sockets,
                                         const StreamSettings& settings) {
  return std::make_unique<Sender>(std::move(sockets), settings);
}

} // namespace rondo::transport::tcp
