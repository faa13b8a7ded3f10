// The sending end over one socket: a queue of messages, which all leave together.
#include <cassert>

#include "transports/tcp/carrier.h"
#include "transports/tcp/message.h"
#include "transports/tcp/socket_io.h"

namespace rondo::transport::tcp {
namespace {

class Sender final : public CarrierSender {
 public:
  Sender(base::UniqueFd socket, const SocketSettings& settings)
      : settings_(settings),
        queue_(static_cast<std::size_t>(settings.size.depth)),
        socket_(std::move(socket)) {}

  std::size_t pending() const override { return static_cast<std::size_t>(end_ - begin_); }

  bool start(const MessageHeader& header, std::span<const ConstBytes> body) override {
    assert(header.bytes <= settings_.size.slot_bytes);
    if (pending() == queue_.size()) {
      progress();
      if (pending() == queue_.size()) return false;
    }
    Message& message = at(end_++);
    message.header = encodeWords<2>({header.signature, header.bytes});
    message.body.set(static_cast<std::size_t>(header.bytes), body);
    progress();
    return true;
  }

  bool progress() override {
    if (begin_ == end_) return false;
    const bool moved = flush();
    if (moved) fruitless_ = 0;
    else if (++fruitless_ % kLooksPerCheck == 0) check();
    return moved;
  }

  bool reads(const void* data, std::size_t size) const override {
    for (std::uint64_t number = begin_; number != end_; ++number)
      if (at(number).body.overlaps(data, size)) return true;
    return false;
  }

 private:
  struct Message {
    std::array<std::byte, kHeaderBytes> header;
    OutgoingBody body;

    std::size_t bytes() const { return kHeaderBytes + body.bytes; }
    /// Adds what is left behind the first `done` bytes. False: not all had room.
    bool gather(std::size_t done, Pieces& pieces) const {
      if (done < kHeaderBytes && !pieces.add(header.data() + done, kHeaderBytes - done))
        return false;
      return pieces.add(std::span<const ConstBytes>(body.pieces),
                        Range{done - std::min(done, kHeaderBytes), body.bytes});
    }
  };

  Message& at(std::uint64_t number) { return queue_[number % queue_.size()]; }
  const Message& at(std::uint64_t number) const { return queue_[number % queue_.size()]; }

  bool flush() {
    for (bool moved = false;;) {
      Pieces pieces;
      std::size_t done = done_;
      for (auto number = begin_; number != end_; ++number, done = 0)
        if (!at(number).gather(done, pieces)) break;
      const std::size_t sent = sendSome(socket_.get(), pieces, settings_);
      advance(sent);
      moved |= sent > 0;
      // A short count means that the socket is full: asking again would only be told so.
      if (sent < pieces.bytes() || begin_ == end_) return moved;
    }
  }

  void advance(std::size_t sent) {
    for (done_ += sent; begin_ != end_ && done_ >= at(begin_).bytes(); ++begin_)
      done_ -= at(begin_).bytes();
  }

  void check() {
    if (fruitless_ == kLooksPerCheck) unanswered_since_ = base::Clock::now();
    unanswered_since_ = checkAnswered(socket_.get(), unanswered_since_, settings_);
  }

  const SocketSettings settings_;
  std::vector<Message> queue_;
  base::UniqueFd socket_;
  std::uint64_t begin_ = 0, end_ = 0; ///< numbers of the pending messages
  std::size_t done_ = 0;              ///< bytes of the first that have left
  std::uint64_t fruitless_ = 0;       ///< calls of progress() that moved nothing, one after another
  base::Clock::time_point unanswered_since_{}; ///< while progress() is fruitless
};

} // namespace

std::unique_ptr<CarrierSender> makeSender(base::UniqueFd socket, const SocketSettings& settings) {
  return std::make_unique<Sender>(std::move(socket), settings);
}

} // namespace rondo::transport::tcp
