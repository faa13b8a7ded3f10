// The receiving end: a small read-ahead for headers and small bodies, user memory for the rest.
#include <cassert>
#include <cstring>
#include <numeric>

#include "rondo/error.h"
#include "transports/tcp/socket_io.h"
#include "transports/tcp/stream.h"

namespace rondo::transport::tcp {
namespace {

std::uint64_t decode(const std::byte* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  return value;
}

class Receiver final : public StreamReceiver {
 public:
  Receiver(std::vector<base::UniqueFd> sockets, const StreamSettings& settings)
      : settings_(settings) {
    for (auto& socket : sockets) lines_.push_back({std::move(socket)});
  }

  const MessageHeader* peek() override {
    if (started_) return &header_;
    if (ahead() < kHeaderBytes && !readAhead()) return nullptr;
    header_ = {decode(ahead_.data() + ahead_begin_), decode(ahead_.data() + ahead_begin_ + 8)};
    if (header_.bytes > settings_.size.slot_bytes)
      throw Error(ErrorCode::transport,
                  settings_.channel + ": rank " + std::to_string(settings_.peer) +
                      " announced a message of " + std::to_string(header_.bytes) +
                      " bytes, more than " + std::to_string(settings_.size.slot_bytes),
                  settings_.peer);
    ahead_begin_ += kHeaderBytes;
    for (Line& line : lines_) line.done = 0;
    started_ = true;
    return &header_;
  }

  bool receive(std::span<const MutableBytes> body) override {
    assert(started_);
    assert(header_.bytes == std::accumulate(body.begin(), body.end(), std::size_t{0},
                                            [](std::size_t sum, const MutableBytes& piece) {
                                              return sum + piece.size;
                                            }));
    bool complete = true;
    for (std::size_t i = 0; i < lines_.size(); ++i) complete &= fill(i, body);
    if (complete) started_ = false;
    return complete;
  }

 private:
  struct Line {
    base::UniqueFd socket;
    std::size_t done = 0; ///< bytes of its stripe of this message
  };

  std::size_t ahead() const { return ahead_end_ - ahead_begin_; }

  /// One call; true when a header is there.
  bool readAhead() {
    std::memmove(ahead_.data(), ahead_.data() + ahead_begin_, ahead());
    ahead_end_ = ahead();
    ahead_begin_ = 0;
    Pieces pieces;
    pieces.add(ahead_.data() + ahead_end_, ahead_.size() - ahead_end_);
    ahead_end_ += receiveSome(lines_[0].socket.get(), pieces, settings_);
    return ahead() >= kHeaderBytes;
  }

  /// Moves what there is of the line's stripe; true when it is complete.
  bool fill(std::size_t index, std::span<const MutableBytes> body) {
    Line& line = lines_[index];
    const Range whole = stripe(static_cast<std::size_t>(header_.bytes), lines_.size(), index);
    if (index == 0 && ahead() > 0) takeAhead(line, whole, body);
    while (line.done < whole.size()) {
      Pieces pieces;
      const bool all = pieces.add(body, Range{whole.begin + line.done, whole.end});
      const std::size_t wanted = pieces.bytes();
      // What follows the body (the next header, small messages) comes along in the same call; the
      // read-ahead is empty here.
      if (index == 0 && all) pieces.add(ahead_.data(), ahead_.size());
      const std::size_t got = receiveSome(line.socket.get(), pieces, settings_);
      line.done += std::min(got, wanted);
      if (got > wanted) {
        ahead_begin_ = 0;
        ahead_end_ = got - wanted;
      }
      // A short count means that the socket is empty: asking again would only be told so.
      if (got < wanted) break;
    }
    return line.done == whole.size();
  }

  void takeAhead(Line& line, Range whole, std::span<const MutableBytes> body) {
    while (line.done < whole.size() && ahead() > 0) {
      Pieces pieces;
      pieces.add(body, Range{whole.begin + line.done,
                             std::min(whole.end, whole.begin + line.done + ahead())});
      for (const iovec& piece : pieces.list()) {
        std::memcpy(piece.iov_base, ahead_.data() + ahead_begin_, piece.iov_len);
        ahead_begin_ += piece.iov_len;
        line.done += piece.iov_len;
      }
    }
  }

  const StreamSettings settings_;
  std::vector<Line> lines_;
  bool started_ = false; ///< header_ is the message's that is being received
  MessageHeader header_;
  std::size_t ahead_begin_ = 0, ahead_end_ = 0;
  std::array<std::byte, kReadAheadBytes> ahead_;
};

} // namespace

std::unique_ptr<StreamReceiver> makeReceiver(std::vector<base::UniqueFd> sockets,
                                             const StreamSettings& settings) {
  return std::make_unique<Receiver>(std::move(sockets), settings);
}

} // namespace rondo::transport::tcp
