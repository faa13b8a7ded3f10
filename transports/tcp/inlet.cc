// Receives from a socket into user memory, and reads ahead.
#include "transports/tcp/inlet.h"

#include <cstring>

namespace rondo::transport::tcp {

const std::byte* Inlet::next(std::size_t size, const SocketSettings& settings) {
  if (ahead() < size) {
    std::memmove(ahead_.data(), ahead_.data() + begin_, ahead());
    end_ = ahead();
    begin_ = 0;
    Pieces pieces;
    pieces.add(ahead_.data() + end_, ahead_.size() - end_);
    end_ += receiveSome(socket_, pieces, settings);
    if (ahead() < size) return nullptr;
  }
  const std::byte* found = ahead_.data() + begin_;
  begin_ += size;
  return found;
}

std::size_t Inlet::read(std::span<const MutableBytes> body, Range range,
                        const SocketSettings& settings) {
  std::size_t at = range.begin + takeAhead(body, range);
  while (at < range.end) {
    Pieces pieces;
    const bool all = pieces.add(body, Range{at, range.end});
    const std::size_t wanted = pieces.bytes();
    if (all) pieces.add(ahead_.data(), ahead_.size()); // ahead_ is empty here
    const std::size_t got = receiveSome(socket_, pieces, settings);
    at += std::min(got, wanted);
    if (got > wanted) {
      begin_ = 0;
      end_ = got - wanted;
    }
    // A short count means that the socket is empty: another call would return nothing.
    if (got < wanted) break;
  }
  return at - range.begin;
}

std::size_t Inlet::takeAhead(std::span<const MutableBytes> body, Range range) {
  std::size_t at = range.begin;
  while (at < range.end && ahead() > 0) {
    Pieces pieces;
    pieces.add(body, Range{at, std::min(range.end, at + ahead())});
    for (const iovec& piece : pieces.list()) {
      std::memcpy(piece.iov_base, ahead_.data() + begin_, piece.iov_len);
      begin_ += piece.iov_len;
      at += piece.iov_len;
    }
  }
  return at - range.begin;
}

} // namespace rondo::transport::tcp
