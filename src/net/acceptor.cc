// Accepts authenticated connections.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/errno_text.h"
#include "base/log.h"
#include "base/random.h"
#include "net/connection.h"
#include "net/event_loop.h"
#include "net/handshake.h"
#include "net/native_address.h"
#include "rondo/error.h"

namespace rondo::net {
namespace {

constexpr int kBacklog = 4096;
/// Pause of accepting when the process has no free descriptor.
constexpr std::chrono::milliseconds kPause{100};
/// If every attempt failed for this long, the cause is not a short burst of connections.
constexpr std::chrono::milliseconds kStarved{500};

std::string randomName() {
  constexpr char kHex[] = "0123456789abcdef";
  std::array<std::byte, 16> bytes{};
  base::randomBytes(bytes);
  std::string name = "rondo-";
  for (std::byte b : bytes) {
    name += kHex[std::to_integer<int>(b) >> 4];
    name += kHex[std::to_integer<int>(b) & 15];
  }
  return name;
}

base::UniqueFd listenOn(SocketAddress address) {
  const bool is_unix = address.family == SocketAddress::Family::unix_abstract;
  if (is_unix && address.name.empty()) address.name = randomName();
  base::UniqueFd fd = makeStreamSocket(address);
  if (!is_unix && address.port != 0) {
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  const NativeAddress native = toNative(address);
  if (::bind(fd.get(), native.get(), native.length) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    throw Error(ErrorCode::system,
                "cannot listen on " + address.text() + ": " + std::strerror(error));
  }
  return fd;
}

/// Whether all bytes were sent. A new socket's buffer has room for a handshake message.
bool sendAll(int fd, std::span<const std::byte> bytes) {
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

} // namespace

/// Remembers since when the process lacks resources to accept connections. One thread writes it.
class Hunger {
 public:
  void feel(int error) {
    const auto now = base::Clock::now().time_since_epoch();
    const base::Clock::duration last(last_.load(std::memory_order_relaxed));
    if (first_.load(std::memory_order_relaxed) == 0 || now - last >= kStarved)
      first_.store(now.count(), std::memory_order_relaxed);
    error_.store(error, std::memory_order_relaxed);
    last_.store(now.count(), std::memory_order_release);
  }
  void end() { first_.store(0, std::memory_order_relaxed); }

  /// errno of a lack that lasts, else 0. Any thread.
  int lasting() const {
    const base::Clock::duration last(last_.load(std::memory_order_acquire));
    const base::Clock::rep first = first_.load(std::memory_order_relaxed);
    if (first == 0) return 0;
    const base::Clock::duration since(first);
    const auto now = base::Clock::now().time_since_epoch();
    return now - since >= kStarved && now - last < kStarved ? error_.load(std::memory_order_relaxed)
                                                            : 0;
  }

 private:
  std::atomic<base::Clock::rep> first_{0}, last_{0}; ///< first_ 0: there is no lack
  std::atomic<int> error_{0};
};

/// After construction only the loop thread uses the members, except `rejected`, `half_open_limit`,
/// `hunger` and `address`.
struct Acceptor::Impl : std::enable_shared_from_this<Acceptor::Impl> {
  enum class Stage { hello, proof, tls };
  enum class Input { more, complete, ended, too_many_descriptors };

  /// A connection whose handshake is in progress.
  struct HalfOpen {
    Socket socket;
    EventLoop::Id watch = 0, timer = 0;
    Stage stage = Stage::hello;
    handshake::HelloBytes hello_bytes{};
    Mac proof{};
    std::size_t have = 0; ///< bytes of the current stage's message
    handshake::HelloMessage hello;
    Key key{}; ///< of the peer's job
    handshake::Nonce nonce{};
    std::vector<base::UniqueFd> passed;
  };
  using Number = std::uint64_t; ///< increasing, so the first in the map is the oldest

  Impl(const Settings& s, std::function<void(Accepted)> a)
      : settings(s), accepted(std::move(a)), half_open_limit(s.half_open_limit) {
    if (!settings.secret_of)
      handshake::requireSecret(settings.secret, settings.address, "listening on");
    if (settings.half_open_limit < 1) {
      throw Error(ErrorCode::invalid_argument,
                  "the limit of half-open connections must be positive");
    }
    loop = EventLoop::get();
    listener = listenOn(settings.address);
    address = localAddress(listener.get());
  }

  void start() {
    listener_watch = loop->watch(listener.get(), EPOLLIN, [weak = weak_from_this()](std::uint32_t) {
      if (auto self = weak.lock()) self->acceptSome();
    });
  }

  void shut() {
    if (!listener) return;
    loop->unwatch(listener_watch);
    loop->cancel(resume_timer);
    listener.reset();
    while (!half_open.empty()) remove(half_open.begin()->first);
  }

  void acceptSome() {
    // Bounded, so that other callbacks get their turn. epoll reports the rest again.
    for (int i = 0; i < 64 && listener; ++i) {
      auto fd = base::UniqueFd::of([this] {
        return ::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      });
      if (fd) {
        begin(std::move(fd));
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (base::lacksResources(errno)) {
        const int error = errno;
        if (!somebodyWaits()) return;
        hunger.feel(error);
        if (evict(Stage::hello)) continue;
        pause(error);
        return;
      }
      // Any other error concerns a single connection that was just closed.
    }
  }

  /// accept() fails for lack of descriptors even if no connection is pending.
  bool somebodyWaits() const {
    pollfd look{listener.get(), POLLIN, 0};
    return ::poll(&look, 1, 0) > 0;
  }

  /// The listener stays readable while nothing can be accepted, so it is not watched for a while.
  void pause(int error) {
    note("no resources", "cannot accept connections for now: " + base::errnoText(error));
    loop->rewatch(listener_watch, 0);
    resume_timer = loop->after(kPause, [weak = weak_from_this()] {
      auto self = weak.lock();
      if (self && self->listener) self->loop->rewatch(self->listener_watch, EPOLLIN);
    });
  }

  /// With an absent secret, proofs prove nothing, so the peer's user is checked.
  bool onlySameUser() const {
    return settings.address.family == SocketAddress::Family::unix_abstract ||
           (!settings.secret_of && !settings.secret.present);
  }

  void begin(base::UniqueFd fd) {
    if (onlySameUser() && !sameUser(fd.get())) {
      count("another user", "it is not known to be of a process of this user");
      return;
    }
    setNoDelay(fd.get(), settings.address);
    while (half_open.size() >= mostHalfOpen() &&
           (evict(Stage::hello) || evict(Stage::proof) || evict(Stage::tls)))
      continue;

    const Number number = ++last_number;
    HalfOpen& peer = half_open[number];
    peer.socket = std::move(fd);
    auto weak = weak_from_this();
    try {
      peer.watch = loop->watch(peer.socket.get(), EPOLLIN, [weak, number](std::uint32_t) {
        if (auto self = weak.lock()) self->ready(number);
      });
    } catch (const Error& error) {
      half_open.erase(number);
      count("no resources", error.what());
      return;
    }
    peer.timer = loop->after(settings.handshake_limit, [weak, number] {
      if (auto self = weak.lock()) self->reject(number, "too slow", "did not finish in time");
    });
    ready(number); // an honest hello has often arrived already, so its peer is not a silent one
  }

  std::size_t mostHalfOpen() const {
    const auto wanted = static_cast<std::size_t>(half_open_limit.load(std::memory_order_relaxed));
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
    return std::min(wanted, std::max<std::size_t>(limit.rlim_cur / 4, 1));
  }

  /// Drops the oldest connection in this stage; false if there is none. Honest peers send their
  /// hello at once, so the oldest silent connection is the least likely to be honest. An honest
  /// peer that is dropped dials again.
  bool evict(Stage stage) {
    for (const auto& [number, peer] : half_open) {
      if (peer.stage != stage) continue;
      reject(number, "too many", "was dropped for a newer one: too many are half-open");
      return true;
    }
    return false;
  }

  void ready(Number number) {
    const auto found = half_open.find(number);
    if (found == half_open.end()) return;
    HalfOpen& peer = found->second;
    try {
      if (peer.stage == Stage::tls) return encrypt(number, peer);
      const Input input =
          peer.stage == Stage::hello ? receive(peer, peer.hello_bytes) : receive(peer, peer.proof);
      switch (input) {
        case Input::more: return;
        case Input::ended: return reject(number, "ended early", "closed the connection");
        case Input::too_many_descriptors:
          return reject(number, "descriptors",
                        "passed too many descriptors, or this process has none left");
        case Input::complete: break;
      }
      peer.have = 0;
      if (peer.stage == Stage::hello) answer(number, peer);
      else check(number, peer);
    } catch (const Error& error) {
      reject(number, "malformed", error.what());
    }
  }

  /// Reads only the missing bytes of the message: bytes after it belong to the connection's user.
  Input receive(HalfOpen& peer, std::span<std::byte> message) {
    while (peer.have < message.size()) {
      iovec piece{message.data() + peer.have, message.size() - peer.have};
      msghdr header{};
      header.msg_iov = &piece;
      header.msg_iovlen = 1;
      // Before the proof there is no buffer for descriptors; the kernel drops them and sets a flag.
      alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * handshake::kMaxPassed)> control{};
      if (peer.stage == Stage::proof) {
        header.msg_control = control.data();
        header.msg_controllen = control.size();
      }
      const base::NoFork whole; // received descriptors get an owner before any fork
      const ssize_t got = ::recvmsg(peer.socket.get(), &header, MSG_CMSG_CLOEXEC);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Input::more;
      if (got <= 0) return Input::ended;
      if (!takeDescriptors(peer, header)) {
        // No more arrived than announced, so this process had no free descriptor.
        if (peer.passed.size() < peer.hello.passed) hunger.feel(EMFILE);
        return Input::too_many_descriptors;
      }
      peer.have += static_cast<std::size_t>(got);
    }
    return Input::complete;
  }

  static bool takeDescriptors(HalfOpen& peer, msghdr& header) {
    bool whole = (header.msg_flags & MSG_CTRUNC) == 0;
    for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr;
         item = CMSG_NXTHDR(&header, item)) {
      if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t number = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < number; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(item) + i * sizeof(int), sizeof(int));
        base::UniqueFd owned(fd);
        if (owned) peer.passed.push_back(std::move(owned));
        else whole = false;
      }
    }
    return whole && peer.passed.size() <= handshake::kMaxPassed;
  }

  void answer(Number number, HalfOpen& peer) {
    if (handshake::otherVersion(peer.hello_bytes))
      sendAll(peer.socket.get(), handshake::encodeReply({}));
    peer.hello = handshake::decodeHello(peer.hello_bytes);
    handshake::ReplyMessage reply;
    const Hello& hello = peer.hello.hello;
    std::optional<Secret> secret;
    if (settings.secret_of) secret = settings.secret_of(hello);
    else if (hello.job == settings.job) secret = settings.secret;
    if (!secret && settings.secret_of && hello.purpose == Hello::Purpose::data)
      return reject(number, "not expected", "no rank of this process waits for it");
    if (!secret) {
      reply.result = handshake::HandshakeResult::wrong_job;
      sendAll(peer.socket.get(), handshake::encodeReply(reply));
      return reject(number, "wrong job", "belongs to another job");
    }
    if (const std::string why = hello.tls ? whyNoTls(*secret) : ""; !why.empty()) {
      reply.result = handshake::HandshakeResult::no_tls;
      sendAll(peer.socket.get(), handshake::encodeReply(reply));
      return reject(number, "no TLS", "it asks for TLS (RONDO_TLS=1): " + why);
    }
    peer.key = handshake::keyOf(*secret);
    base::randomBytes(peer.nonce);
    reply.nonce = peer.nonce;
    reply.proof = handshake::accepterProof(peer.key, peer.hello_bytes, peer.nonce);
    if (!sendAll(peer.socket.get(), handshake::encodeReply(reply))) {
      return reject(number, "ended early", "did not take the reply");
    }
    peer.stage = Stage::proof;
  }

  std::string whyNoTls(const Secret& secret) const {
    if (settings.address.family == SocketAddress::Family::unix_abstract)
      return "Unix sockets have none";
    return secret.present ? tlsMissing() : "this job has no secret";
  }

  void check(Number number, HalfOpen& peer) {
    const Mac wanted = handshake::dialerProof(peer.key, peer.hello_bytes, peer.nonce);
    if (!equalConstantTime(wanted, peer.proof)) {
      return reject(number, "wrong secret", "does not know the job's secret");
    }
    if (peer.passed.size() != peer.hello.passed) {
      return reject(number, "descriptors", "passed other descriptors than announced");
    }
    if (!peer.hello.hello.tls) {
      if (sendAll(peer.socket.get(), std::span(&handshake::kWelcome, 1))) finish(number, peer);
      else reject(number, "ended early", "did not take the welcome");
      return;
    }
    const int fd = peer.socket.get();
    const Mac key = handshake::tlsKey(peer.key, peer.hello_bytes, peer.nonce);
    auto tls = makeTls(fd, false, key);
    peer.socket = Socket(std::move(peer.socket).plain(), std::move(tls));
    peer.stage = Stage::tls;
    encrypt(number, peer);
  }

  /// The welcome is the first byte inside TLS, so a peer that gets it knows that this side has
  /// finished the TLS handshake.
  void encrypt(Number number, HalfOpen& peer) {
    Tls& tls = *peer.socket.tls();
    switch (tls.handshake()) {
      case Tls::Progress::wants_to_read: return loop->rewatch(peer.watch, EPOLLIN);
      case Tls::Progress::wants_to_write: return loop->rewatch(peer.watch, EPOLLOUT);
      case Tls::Progress::failed:
        return reject(number, "TLS", "the TLS handshake failed: " + tls.trouble());
      case Tls::Progress::done: break;
    }
    auto welcome = handshake::kWelcome;
    const iovec piece{&welcome, 1};
    if (tls.send(std::span(&piece, 1)) == 1) finish(number, peer);
    else reject(number, "ended early", "did not take the welcome");
  }

  void finish(Number number, HalfOpen& peer) {
    hunger.end();
    Accepted result;
    result.hello = peer.hello.hello;
    result.session_key = handshake::sessionKey(peer.key, peer.hello_bytes, peer.nonce);
    result.passed = std::move(peer.passed);
    loop->unwatch(peer.watch);
    loop->cancel(peer.timer);
    result.socket = std::move(peer.socket);
    half_open.erase(number);
    try {
      accepted(std::move(result));
    } catch (const std::exception& error) {
      base::log(LogLevel::error, "an accepted connection was dropped: ", error.what());
    }
  }

  void remove(Number number) {
    const auto found = half_open.find(number);
    loop->unwatch(found->second.watch);
    loop->cancel(found->second.timer);
    half_open.erase(found);
  }

  void reject(Number number, const char* kind, const std::string& why) {
    if (!half_open.contains(number)) return;
    remove(number);
    count(kind, why);
  }

  void count(const char* kind, const std::string& why) {
    rejected.fetch_add(1, std::memory_order_relaxed);
    note(kind, "a connection to " + address.text() + " was refused: " + why);
  }

  /// Logs the first of each kind as a warning. A port scan must not fill the log.
  void note(const char* kind, const std::string& text) {
    base::log(noted.insert(kind).second ? LogLevel::warn : LogLevel::trace, text);
  }

  const Settings settings;
  const std::function<void(Accepted)> accepted;
  std::atomic<int> half_open_limit;
  std::shared_ptr<EventLoop> loop;
  base::UniqueFd listener;
  SocketAddress address;
  std::atomic<std::uint64_t> rejected{0};
  Hunger hunger;

  EventLoop::Id listener_watch = 0, resume_timer = 0;
  Number last_number = 0;
  std::map<Number, HalfOpen> half_open;
  std::set<std::string> noted;
};

Acceptor::Acceptor(const Settings& settings, std::function<void(Accepted)> accepted)
    : impl_(std::make_shared<Impl>(settings, std::move(accepted))) {
  impl_->loop->call([this] { impl_->start(); });
}

Acceptor::~Acceptor() { close(); }

const SocketAddress& Acceptor::address() const { return impl_->address; }

std::uint64_t Acceptor::rejected() const { return impl_->rejected.load(std::memory_order_relaxed); }

void Acceptor::throwIfStarved() const {
  if (const int error = impl_->hunger.lasting())
    throw Error(ErrorCode::system, "cannot accept connections to " + impl_->address.text() + ": " +
                                       base::errnoText(error));
}

void Acceptor::expect(int peers) {
  int now = impl_->half_open_limit.load(std::memory_order_relaxed);
  while (now < peers + 64 && !impl_->half_open_limit.compare_exchange_weak(now, peers + 64))
    continue;
}

void Acceptor::close() {
  impl_->loop->call([impl = impl_] { impl->shut(); });
}

} // namespace rondo::net
