// The sending end over one socket: a queue of messages, as many as possible sent by one call.
#include "transports/tcp/message.h"
#include "transports/tcp/queueing_sender.h"
#include "transports/tcp/socket_io.h"

namespace rondo::transport::tcp {
namespace {

struct StreamMessage {
  /// The header, directly followed by a small body, so that both are one piece.
  std::array<std::byte, kHeaderBytes + kSealBytes + kGatherBytes> header;
  std::size_t header_bytes = kHeaderBytes;
  OutgoingBody body;

  void set(const MessageHeader& of, std::span<const ConstBytes> pieces,
           const SocketSettings& settings) {
    const auto words = encodeWords<2>({of.signature, sizeWord(of)}, settings.sealed);
    header_bytes = settings.headerBytes(kHeaderBytes);
    std::memcpy(header.data(), words.data(), words.size());
    body.set(of.bytes, pieces, header.data() + header_bytes);
  }
  bool reads(const void* data, std::size_t size) const { return body.overlaps(data, size); }

  std::size_t bytes() const { return header_bytes + body.bytes; }
  /// Adds what is left after the first `done` bytes. False: there was not room for all.
  bool gather(std::size_t done, Pieces& pieces) const {
    if (done < header_bytes && !pieces.add(header.data() + done, header_bytes - done)) return false;
    return pieces.add(std::span<const ConstBytes>(body.pieces),
                      Range{done - std::min(done, header_bytes), body.bytes});
  }
};

class Sender final : public QueueingSender<StreamMessage> {
 public:
  Sender(net::Socket socket, const SocketSettings& settings)
      : QueueingSender(settings), socket_(std::move(socket)) {}

  bool progress() override {
    if (begin_ == end_) return false;
    const bool moved = flush();
    if (moved) fruitless_ = 0;
    else if (++fruitless_ % kLooksPerCheck == 0) check();
    return moved;
  }

 private:
  bool flush() {
    for (bool moved = false;;) {
      Pieces pieces;
      std::size_t done = done_;
      for (auto number = begin_; number != end_; ++number, done = 0)
        if (!at(number).gather(done, pieces)) break;
      const std::size_t sent = sendSome(socket_, pieces, settings_);
      advance(sent);
      moved |= sent > 0;
      // A short count means that the socket is full: another call would send nothing.
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

  net::Socket socket_;
  std::size_t done_ = 0;        ///< bytes of the first message that were sent
  std::uint64_t fruitless_ = 0; ///< consecutive calls of progress() that moved nothing
  base::Clock::time_point unanswered_since_{}; ///< set while progress() moves nothing
};

} // namespace

std::unique_ptr<NetworkSender> makeSender(net::Socket socket, const SocketSettings& settings) {
  return std::make_unique<Sender>(std::move(socket), settings);
}

} // namespace rondo::transport::tcp
