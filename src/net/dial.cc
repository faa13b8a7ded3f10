// Dials authenticated connections.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "base/awake.h"
#include "base/errno_text.h"
#include "base/log.h"
#include "base/random.h"
#include "net/connection.h"
#include "net/event_loop.h"
#include "net/handshake.h"
#include "net/interfaces.h"
#include "net/native_address.h"
#include "rondo/error.h"

namespace rondo::net {
namespace {

constexpr std::chrono::milliseconds kFirstBackoff{1};
constexpr std::chrono::milliseconds kLastBackoff{200};
/// Longer than the loop thread takes to end a connection at its deadline, even if it gets less
/// processor time than the waiting thread.
constexpr std::chrono::seconds kLoopLimit{10};

/// Errors of connect() that may be temporary: the listener does not exist yet or is overloaded, or
/// the network lost the packets of address resolution (ARP) or of the connection's start (SYN), or
/// a container's network has no route yet.
bool worthARetry(int error) {
  constexpr std::array kTransient{ECONNREFUSED, ECONNRESET,   ECONNABORTED, EAGAIN,     EINTR,
                                  ETIMEDOUT,    EHOSTUNREACH, EHOSTDOWN,    ENETUNREACH};
  return std::find(kTransient.begin(), kTransient.end(), error) != kTransient.end();
}

/// Whether this machine has an address from which it can reach `there`. If so, EADDRNOTAVAIL means
/// that all local ports for `there` are in use. Connecting a datagram socket sends nothing.
bool hasAddressFor(const SocketAddress& there) {
  const NativeAddress native = toNative(there);
  const auto fd = base::UniqueFd::of(
      [&] { return ::socket(native.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0); });
  return !fd || ::connect(fd.get(), native.get(), native.length) == 0 || errno != EADDRNOTAVAIL;
}

Dial::Settings fromHere(Dial::Settings settings) {
  settings.address = seenFromHere(settings.address);
  return settings;
}

/// The kernel may choose the dialed local port for the dialing socket itself.
bool connectedToItself(int fd) {
  NativeAddress here, there;
  here.length = there.length = sizeof(sockaddr_storage);
  return ::getsockname(fd, here.get(), &here.length) == 0 &&
         ::getpeername(fd, there.get(), &there.length) == 0 && here.length == there.length &&
         std::memcmp(&here.storage, &there.storage, here.length) == 0;
}

} // namespace

struct Dial::Impl : std::enable_shared_from_this<Dial::Impl> {
  enum class Stage { connecting, reply, tls, welcome };

  explicit Impl(const Settings& s)
      : settings(fromHere(s)),
        key(handshake::keyOf(s.secret)),
        limit(base::Deadline(s.deadline).left()) {
    const bool is_unix = settings.address.family == SocketAddress::Family::unix_abstract;
    handshake::requireSecret(settings.secret, settings.address, "connecting to");
    if (settings.pass.size() > handshake::kMaxPassed || (!settings.pass.empty() && !is_unix)) {
      throw Error(ErrorCode::invalid_argument,
                  "at most " + std::to_string(handshake::kMaxPassed) +
                      " descriptors can be passed, and only over a Unix socket");
    }
    if (settings.hello.tls) {
      if (is_unix || !settings.secret.present)
        throw Error(ErrorCode::invalid_argument,
                    "connecting to " + settings.address.text() +
                        ": TLS needs a network address and a job secret");
      requireTls("connecting to " + settings.address.text());
    }
    static_cast<void>(toNative(settings.address)); // throws here rather than on the loop thread
    for (int original : settings.pass) {
      passed.push_back(
          base::UniqueFd::of([original] { return ::fcntl(original, F_DUPFD_CLOEXEC, 0); }));
      if (!passed.back()) {
        throw Error(ErrorCode::system,
                    "cannot duplicate a descriptor to pass: " + base::errnoText(errno));
      }
    }
    loop = EventLoop::get();
  }

  // On the loop thread.

  void start() {
    spend(limit);
    attempt();
  }

  /// In pieces, so that time in which the process was stopped does not count.
  void spend(base::Clock::duration left) {
    const auto piece = std::min(left, base::kAwakePiece);
    deadline_timer = loop->after(piece, [weak = weak_from_this(), left = left - piece] {
      const auto self = weak.lock();
      if (!self) return;
      if (left > base::Clock::duration::zero()) self->spend(left);
      else
        self->end(self->own_trouble ? ErrorCode::system : ErrorCode::timeout,
                  "timed out after " + base::text(self->limit) + ": " + self->last_trouble);
    });
  }

  void attempt() {
    try {
      socket = makeStreamSocket(settings.address);
      setNoDelay(socket.get(), settings.address);
      const NativeAddress native = toNative(settings.address);
      stage = Stage::connecting;
      if (::connect(socket.get(), native.get(), native.length) != 0 && errno != EINPROGRESS) {
        return connectFailed(errno);
      }
      watch = loop->watch(socket.get(), EPOLLOUT, [weak = weak_from_this()](std::uint32_t) {
        if (auto self = weak.lock()) self->ready();
      });
    } catch (const Error& error) {
      end(error.code(), error.what());
    }
  }

  void connectFailed(int error) {
    if (error == ECONNREFUSED && !settings.patient) end(ErrorCode::peer_dead, std::strerror(error));
    else if (worthARetry(error)) retry(std::strerror(error));
    else if (error == EADDRNOTAVAIL && hasAddressFor(settings.address)) retryForPort(error);
    else end(ErrorCode::transport, std::strerror(error));
  }

  /// The listener may not exist yet, or may be flooded by others.
  void retry(const std::string& why) {
    own_trouble = false;
    retryLater(why);
  }

  /// Ports become free again when other connections of this machine have ended.
  void retryForPort(int error) {
    own_trouble = true;
    retryLater("this machine has no free local port for the connection (" + base::errnoText(error) +
               "); the range is net.ipv4.ip_local_port_range");
  }

  void retryLater(const std::string& why) {
    disconnect();
    last_trouble = why;
    const auto delay = backoff;
    backoff = std::min(backoff * 2, kLastBackoff);
    retry_timer = loop->after(delay, [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->attempt();
    });
  }

  void disconnect() {
    loop->unwatch(watch);
    watch = 0;
    socket.reset();
    have = 0;
  }

  void ready() {
    try {
      if (stage == Stage::connecting) return connected();
      if (stage == Stage::tls) return encrypt();
      const std::span<std::byte> message =
          stage == Stage::reply ? std::span<std::byte>(reply) : std::span<std::byte>(welcome);
      while (have < message.size()) {
        const ssize_t got = receive(message.subspan(have));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (got < 0 && (errno == EBADMSG || errno == EPROTO) && socket.tls())
          return end(ErrorCode::transport, "the TLS connection failed: " + socket.tls()->trouble());
        if (got <= 0) return peerGone();
        have += static_cast<std::size_t>(got);
      }
      have = 0;
      if (stage == Stage::reply) prove();
      else if (welcome[0] == handshake::kWelcome) succeed();
      else end(ErrorCode::transport, "the other side does not use Rondo's handshake");
    } catch (const Error& error) {
      end(error.code(), error.what());
    }
  }

  ssize_t receive(std::span<std::byte> into) {
    if (!socket.tls()) return ::recv(socket.get(), into.data(), into.size(), 0);
    const iovec piece{into.data(), into.size()};
    return socket.tls()->receive(std::span(&piece, 1));
  }

  void connected() {
    int error = 0;
    socklen_t length = sizeof(error);
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return connectFailed(error);
    if (settings.address.family == SocketAddress::Family::unix_abstract) {
      if (!sameUser(socket.get())) {
        return end(ErrorCode::transport, "the listener belongs to another user");
      }
    } else if (connectedToItself(socket.get())) {
      return connectFailed(ECONNREFUSED);
    }
    handshake::HelloMessage message;
    message.hello = settings.hello;
    message.passed = static_cast<std::uint8_t>(passed.size());
    base::randomBytes(message.nonce);
    hello = handshake::encodeHello(message);
    if (!send(hello, false)) return peerGone();
    stage = Stage::reply;
    loop->rewatch(watch, EPOLLIN);
  }

  void prove() {
    const handshake::ReplyMessage message = handshake::decodeReply(reply);
    if (message.result == handshake::HandshakeResult::wrong_job) {
      return end(ErrorCode::transport,
                 "the listener belongs to another job, or this job has ended there");
    }
    if (message.result == handshake::HandshakeResult::no_tls) {
      return end(
          ErrorCode::transport,
          "this rank has RONDO_TLS=1, but the listener refused TLS: it has no job secret, or "
          "cannot load libssl");
    }
    const Mac wanted = handshake::accepterProof(key, hello, message.nonce);
    if (!equalConstantTime(wanted, message.proof)) {
      return end(ErrorCode::transport, "the listener does not know this job's secret");
    }
    // The listener has accepted the connection by now, so the kernel knows its owner.
    if (!settings.secret.present && !sameUser(socket.get())) {
      return end(ErrorCode::transport, "the listener belongs to another user");
    }
    session_key = handshake::sessionKey(key, hello, message.nonce);
    stage = Stage::welcome;
    if (!send(handshake::dialerProof(key, hello, message.nonce), true)) return peerGone();
    if (!settings.hello.tls) return;
    const int fd = socket.get();
    const Mac shared = handshake::tlsKey(key, hello, message.nonce);
    auto tls = makeTls(fd, true, shared);
    socket = Socket(std::move(socket).plain(), std::move(tls));
    stage = Stage::tls;
    encrypt();
  }

  void encrypt() {
    switch (socket.tls()->handshake()) {
      case Tls::Progress::wants_to_read: return loop->rewatch(watch, EPOLLIN);
      case Tls::Progress::wants_to_write: return loop->rewatch(watch, EPOLLOUT);
      case Tls::Progress::failed:
        if (socket.tls()->ended()) return peerGone();
        return end(ErrorCode::transport, "the TLS handshake failed: " + socket.tls()->trouble());
      case Tls::Progress::done: break;
    }
    stage = Stage::welcome;
    loop->rewatch(watch, EPOLLIN);
    ready(); // the welcome may have been read with the end of the handshake
  }

  /// The listener is closing, or dropped this connection because too many were half-open. Retrying
  /// is safe: once the listener has accepted the connection, it sends its welcome first.
  void peerGone() { retry("the listener closed the connection during the handshake"); }

  /// Whether all bytes were sent. A new socket's buffer has room for them.
  bool send(std::span<const std::byte> bytes, bool with_descriptors) {
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()}; // sendmsg() only reads it
    msghdr header{};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * handshake::kMaxPassed)> control{};
    if (with_descriptors && !passed.empty()) {
      header.msg_control = control.data();
      header.msg_controllen = CMSG_SPACE(sizeof(int) * passed.size());
      cmsghdr* item = CMSG_FIRSTHDR(&header);
      item->cmsg_level = SOL_SOCKET;
      item->cmsg_type = SCM_RIGHTS;
      item->cmsg_len = CMSG_LEN(sizeof(int) * passed.size());
      std::array<int, handshake::kMaxPassed> numbers{};
      std::transform(passed.begin(), passed.end(), numbers.begin(),
                     [](const base::UniqueFd& one) { return one.get(); });
      std::memcpy(CMSG_DATA(item), numbers.data(), sizeof(int) * passed.size());
    }
    return ::sendmsg(socket.get(), &header, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

  void succeed() {
    loop->unwatch(watch);
    watch = 0;
    loop->cancel(deadline_timer);
    passed.clear();
    std::lock_guard lock(mutex);
    done = true;
    result = std::move(socket);
    changed.notify_all();
  }

  void end(ErrorCode code, const std::string& why) {
    cancel();
    std::lock_guard lock(mutex);
    if (done) return;
    done = true;
    error_code = code;
    error_text = "connecting to " + settings.address.text() + ": " + why;
    changed.notify_all();
  }

  void cancel() {
    loop->cancel(deadline_timer);
    loop->cancel(retry_timer);
    disconnect();
    passed.clear();
  }

  // On the user's thread, with the mutex held.

  std::optional<Socket> take() {
    if (!done) return std::nullopt;
    if (!error_text.empty()) throw Error(error_code, error_text);
    assert(result && "a connection can be taken once");
    return std::move(result);
  }

  const Settings settings;
  const base::Maker maker;
  const Key key;
  const base::Clock::duration limit;
  std::vector<base::UniqueFd> passed;
  std::shared_ptr<EventLoop> loop;

  // Used by the loop thread only.
  Stage stage = Stage::connecting;
  Socket socket;
  EventLoop::Id watch = 0, retry_timer = 0, deadline_timer = 0;
  std::chrono::milliseconds backoff = kFirstBackoff;
  std::string last_trouble = "no answer";
  bool own_trouble = false; ///< the last trouble is this machine's, not the peer's
  handshake::HelloBytes hello{};
  handshake::ReplyBytes reply{};
  std::array<std::byte, 1> welcome{};
  std::size_t have = 0;
  Mac session_key{}; ///< other threads read it after `done`

  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Socket result;
  ErrorCode error_code = ErrorCode::transport;
  std::string error_text; ///< empty: success
};

Dial::Dial(const Settings& settings) : impl_(std::make_shared<Impl>(settings)) {
  impl_->loop->post([weak = std::weak_ptr(impl_)] {
    if (auto impl = weak.lock()) impl->start();
  });
}

Dial::~Dial() {
  if (impl_->maker.elsewhere()) return;
  {
    std::lock_guard lock(impl_->mutex);
    if (impl_->done) return;
  }
  impl_->loop->call([impl = impl_] { impl->cancel(); });
}

std::optional<Socket> Dial::poll() {
  std::lock_guard lock(impl_->mutex);
  return impl_->take();
}

Socket Dial::wait() {
  assert(!impl_->loop->onLoopThread() && "the loop thread would wait for itself");
  std::unique_lock lock(impl_->mutex);
  // The loop's timer ends the dial. This limit matters only if the loop is stuck.
  const auto latest = std::min(impl_->limit, base::Clock::duration::max() / 4) * 2 + kLoopLimit;
  if (!base::waitAwake(&impl_->changed, lock, latest, [&] { return impl_->done; })) {
    throw Error(ErrorCode::timeout, "connecting to " + impl_->settings.address.text() +
                                        ": the control thread is stuck");
  }
  return std::move(*impl_->take());
}

std::array<std::byte, 32> Dial::sessionKey() const {
  std::lock_guard lock(impl_->mutex);
  assert(impl_->done);
  return impl_->session_key;
}

} // namespace rondo::net
