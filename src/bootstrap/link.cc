// Sends and receives frames over a non-blocking socket: [length u32][version u8][type u8][body][MAC
// 32].
#include "bootstrap/link.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "bootstrap/limits.h"
#include "net/native_address.h"
#include "rondo/error.h"

namespace rondo::bootstrap {

namespace {

constexpr std::uint8_t kVersion = 6;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kMacBytes = std::tuple_size_v<net::Mac>;
constexpr std::size_t kLeast = 2 + kMacBytes; ///< smallest value of a frame's length field
constexpr std::size_t kMost = frames::kFrameBytes - kLengthBytes;
/// Bounds the memory for a peer that does not read.
constexpr std::size_t kOutLimit = 64 * 1024 * 1024;
/// A link that ends reads what is left at most this many times: a peer may send without end.
constexpr int kLastReads = 1024;
constexpr std::chrono::milliseconds kLook{1};

std::atomic<int> parting_links{0};

} // namespace

std::shared_ptr<Link> Link::open(std::shared_ptr<net::EventLoop> loop, net::Socket socket,
                                 const net::Key& key, Side side, Handlers handlers) {
  std::shared_ptr<Link> link(
      new Link(std::move(loop), std::move(socket), key, side, std::move(handlers)));
  link->watch_ = link->loop_->watch(link->socket_.get(), EPOLLIN,
                                    [weak = std::weak_ptr(link)](std::uint32_t events) {
                                      if (const auto self = weak.lock()) self->ready(events);
                                    });
  link->readBuffered();
  return link;
}

Link::Link(std::shared_ptr<net::EventLoop> loop, net::Socket socket, const net::Key& key, Side side,
           Handlers handlers)
    : loop_(std::move(loop)),
      socket_(std::move(socket)),
      key_(key),
      side_(side),
      handlers_(std::move(handlers)) {}

Link::~Link() { shut(); }

void Link::close() {
  if (!open()) return;
  if (maker_.elsewhere() || out_.empty() || !flush() || out_.empty()) return shut();
  ++parting_links;
  parting_ = loop_->after(kPartLimit, [self = shared_from_this()] { self->shut(); });
  loop_->rewatch(watch_, EPOLLOUT);
}

void Link::awaitParted() {
  if (parting_links == 0 || net::EventLoop::get()->onLoopThread()) return;
  while (parting_links > 0) std::this_thread::sleep_for(kLook);
}

void Link::shut() {
  if (!socket_) return;
  if (maker_.elsewhere()) return socket_.reset();
  loop_->unwatch(watch_);
  if (parting_ != 0) --parting_links;
  loop_->cancel(parting_);
  // Closing with unread bytes sends a reset, which can destroy the last frame in the peer's buffer.
  std::array<std::byte, 16 * 1024> unread;
  for (int i = 0; i < kLastReads; ++i)
    if (::recv(socket_.get(), unread.data(), unread.size(), MSG_DONTWAIT) <= 0) break;
  ::shutdown(socket_.get(), SHUT_WR);
  socket_.reset();
}

void Link::end(const std::string& why) {
  if (!open()) return;
  const auto closed = std::move(handlers_.closed);
  shut();
  if (closed) closed(why);
}

void Link::endFor(int version) {
  sendBytes(frames::Type::refused, {}); // a peer reads its version only
  if (const auto other = std::exchange(handlers_.other_version, {})) {
    handlers_.closed = nullptr;
    shut();
    return other(version);
  }
  end("it " + differentVersions(version, "this process"));
}

std::string differentVersions(int theirs, const std::string& own) {
  return "has version " + std::to_string(theirs) + " of Rondo's control protocol, but " + own +
         " has version " + std::to_string(kVersion) +
         ": all ranks of a job need the same build of Rondo";
}

std::string unknownVersion(const std::string& own) {
  return "may have another version of Rondo's control protocol than " + own + " (" +
         std::to_string(kVersion) + ")";
}

net::Mac Link::mac(bool outgoing, std::uint64_t sequence, std::span<const std::byte> bytes) const {
  const bool by_hub = (side_ == Side::hub) == outgoing;
  base::Writer number;
  number.u64(sequence);
  return net::hmacSha256(key_, by_hub ? "rondo control hub" : "rondo control member",
                         {number.bytes(), bytes});
}

void Link::sendBytes(frames::Type type, std::span<const std::byte> body) {
  if (!open() || out_bytes_ > kOutLimit) return;
  base::Writer frame;
  frame.u32(static_cast<std::uint32_t>(kLeast + body.size()));
  frame.u8(kVersion);
  frame.u8(static_cast<std::uint8_t>(type));
  frame.raw(body);
  frame.raw(mac(true, sent_++, frame.bytes()));
  out_.push_back(frame.take());
  out_bytes_ += out_.back().size();
  // No end() here: the caller may be in the middle of a loop over members. The event loop reports
  // a broken connection.
  if (out_bytes_ > kOutLimit)
    return loop_->post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->end("it does not read its control connection");
    });
  if (!writing_ && flush() && !out_.empty()) watchFor(true);
}

/// Returns false if the connection is broken; the event loop notices that too.
bool Link::flush() {
  while (!out_.empty()) {
    const auto& frame = out_.front();
    const ssize_t count = sendSome(std::span(frame).subspan(out_at_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
      readBuffered(); // epoll does not report a failure of TLS
      return false;
    }
    out_at_ += static_cast<std::size_t>(count);
    if (out_at_ < frame.size()) continue;
    out_bytes_ -= frame.size();
    out_.pop_front();
    out_at_ = 0;
  }
  return true;
}

void Link::watchFor(bool writing) {
  writing_ = writing;
  loop_->rewatch(watch_, writing ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void Link::ready(std::uint32_t events) {
  const auto keep = shared_from_this(); // a handler may drop the last other reference
  if (parting_ != 0) {
    if (!flush() || out_.empty()) shut();
    return;
  }
  if (events & EPOLLOUT) {
    flush();
    if (out_.empty()) watchFor(false);
  }
  // A broken connection may still hold frames, which are read first.
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readSome();
}

ssize_t Link::sendSome(std::span<const std::byte> bytes) {
  if (!socket_.tls())
    return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()}; // it is only read
  return socket_.tls()->send(std::span(&piece, 1));
}

ssize_t Link::receive(std::span<std::byte> into) {
  if (!socket_.tls()) return ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
  const iovec piece{into.data(), into.size()};
  return socket_.tls()->receive(std::span(&piece, 1));
}

void Link::readSome() {
  std::array<std::byte, 16 * 1024> chunk;
  // Bounded, so that other connections get their turn.
  for (int i = 0; i < 16 && open(); ++i) {
    const ssize_t count = receive(chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count == 0) return end("its connection was closed");
    if (count < 0 && (errno == EBADMSG || errno == EPROTO) && socket_.tls())
      return end("its control connection failed in TLS: " + socket_.tls()->trouble());
    if (count < 0) return end(std::string("its connection broke: ") + std::strerror(errno));
    in_.insert(in_.end(), chunk.begin(), chunk.begin() + count);
    parse();
  }
  readBuffered();
}

void Link::readBuffered() {
  if (!open() || !socket_.tls() || !socket_.tls()->buffered()) return;
  loop_->post([weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && self->open()) self->readSome();
  });
}

void Link::parse() {
  std::size_t at = 0;
  while (open() && in_.size() - at >= kLengthBytes) {
    const std::span<const std::byte> rest = std::span(in_).subspan(at);
    base::Reader head(rest, "a control frame");
    const std::uint32_t length = head.u32();
    if (length < kLeast || length > kMost)
      return end("it sent a control frame of " + std::to_string(length) + " bytes");
    if (rest.size() < kLengthBytes + length) break;
    const auto signed_part = rest.first(kLengthBytes + length - kMacBytes);
    const auto proof = rest.subspan(signed_part.size(), kMacBytes);
    if (!net::equalConstantTime(mac(false, received_++, signed_part), proof))
      return end("it sent a control frame that is not authentic");
    base::Reader body(signed_part.subspan(kLengthBytes), "a control frame");
    try {
      if (const int version = body.u8(); version != kVersion) return endFor(version);
      const std::uint8_t type = body.u8();
      if (type < 1 || type > static_cast<std::uint8_t>(frames::kLastType))
        body.fail("is of unknown type " + std::to_string(type));
      handlers_.frame(static_cast<frames::Type>(type), body);
    } catch (const Error& error) {
      return end(error.what());
    }
    at += kLengthBytes + length;
  }
  if (open()) in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(at));
}

} // namespace rondo::bootstrap
