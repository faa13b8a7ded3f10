// The module librondo_tls.so: the handshake of TLS 1.3 by OpenSSL's libssl, with a pre-shared key
// and an ephemeral exchange (psk_dhe_ke). There are no certificates.
//
// After the handshake libssl is not used, because it copies each byte twice: records.h encrypts and
// decrypts. As for Linux's kernel TLS, libssl hands over the connection's traffic secrets; it gives
// them to its callback for key logs.
#include "net/tls/module.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "net/tls/records.h"

namespace rondo::net::tls {
namespace {

/// Room for the records of one send() or one recv(): eight full ones, and small ones between them.
constexpr std::size_t kBufferBytes = 8 * (kRecordBytes + kAddedBytes) + 1024;
/// A piece of at least this size begins a new record, so that the receiver can decrypt that record
/// directly into its own piece.
constexpr std::size_t kOwnRecordBytes = 4096;
/// The message that announces a new key, and does not request one (RFC 8446, 4.6.3).
constexpr std::array<unsigned char, 5> kKeyUpdate = {SSL3_MT_KEY_UPDATE, 0, 0, 1, 0};
constexpr char kSuite[] = "TLS_AES_128_GCM_SHA256";
constexpr char kGroups[] = "X25519:P-256", kFipsGroups[] = "P-256";
constexpr char kIdentity[] = "rondo";

struct Free {
  void operator()(SSL* ssl) const { ::SSL_free(ssl); }
};

bool notNow(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

std::string lastError() {
  const unsigned long code = ::ERR_peek_last_error();
  const char* const text = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  return text == nullptr ? "libssl gives no reason" : text;
}

class OpenSsl final : public Tls {
 public:
  static Tls* open(const Settings& settings, std::string& why);
  ~OpenSsl() override { ::OPENSSL_cleanse(key_.data(), key_.size()); }

  Progress handshake() override;
  ssize_t send(std::span<const iovec> list) override;
  ssize_t receive(std::span<const iovec> list) override;
  bool buffered() const override { return broken_ || opened_ > 0 || next() != Next::partial; }
  bool ended() const override { return ended_ || socket_error_ != 0; }
  std::string trouble() const override { return trouble_; }

 private:
  explicit OpenSsl(const Settings& settings)
      : fd_(settings.fd), records_per_key_(settings.records_per_key), key_(settings.key) {}

  static SSL_CTX* context();
  static BIO_METHOD* method();
  static int write(BIO* bio, const char* data, int size);
  static int read(BIO* bio, char* data, int size);
  static long control(BIO* bio, int command, long number, void* pointer);
  static unsigned ofClient(SSL* ssl, const char* hint, char* identity, unsigned most_identity,
                           unsigned char* key, unsigned most_key);
  static unsigned ofServer(SSL* ssl, const char* identity, unsigned char* key, unsigned most_key);
  unsigned give(unsigned char* key, unsigned most) const;

  static void takeSecret(const SSL* ssl, const char* line);
  bool flush();
  bool encrypt(Place from);
  bool encryptMessage(Type type, std::span<const unsigned char> message);
  enum class Next { partial, whole, not_encrypted, too_short, too_long };
  Next next() const;
  std::optional<int> decrypt(Place& to);
  std::optional<int> obey(Type type, std::size_t size, Place content);
  void takeOpened(Place& to);
  ssize_t receiveMore();
  int refuse(unsigned char alert);
  ssize_t failed(int error);

  const int fd_;
  const std::uint64_t records_per_key_;
  std::array<std::byte, 32> key_;
  std::unique_ptr<SSL, Free> ssl_; ///< during the handshake

  Records sealing_, opening_;
  using Buffer = std::unique_ptr<unsigned char[]>;
  Buffer out_;                           ///< the handshake's messages, then encrypted records
  std::size_t out_at_ = 0, out_end_ = 0; ///< of these, bytes that the kernel has not taken
  std::size_t encrypted_ = 0; ///< bytes of the caller in out_ that send() has not counted
  Buffer in_;                 ///< received records
  std::size_t in_at_ = 0, in_end_ = 0;
  std::size_t opened_ = 0; ///< bytes at in_at_ that are decrypted; kTrailerBytes follow

  bool ended_ = false;   ///< the peer has sent its last byte
  int socket_error_ = 0; ///< of the last recv()
  /// The handshake is not done, or the connection has ended or failed: calls return broken_error_.
  bool broken_ = true;
  int broken_error_ = EPROTO; ///< 0: the connection's end
  std::string trouble_;
};

// libssl's side -----------------------------------------------------------------------------------

SSL_CTX* OpenSsl::context() {
  // Never freed: connections are also used while the process ends.
  static SSL_CTX* const made = []() -> SSL_CTX* {
    SSL_CTX* const ctx = ::SSL_CTX_new(::TLS_method());
    if (ctx == nullptr) return nullptr;
    const bool set = ::SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
                     ::SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
                     ::SSL_CTX_set_ciphersuites(ctx, kSuite) == 1 &&
                     (::SSL_CTX_set1_groups_list(ctx, kGroups) == 1 ||
                      ::SSL_CTX_set1_groups_list(ctx, kFipsGroups) == 1) &&
                     ::SSL_CTX_set_num_tickets(ctx, 0) == 1;
    if (!set) {
      ::SSL_CTX_free(ctx);
      return nullptr;
    }
    ::SSL_CTX_clear_options(ctx, SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX);
    ::SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    // libssl must not receive what follows the handshake.
    ::SSL_CTX_set_read_ahead(ctx, 0);
    ::SSL_CTX_set_psk_client_callback(ctx, ofClient);
    ::SSL_CTX_set_psk_server_callback(ctx, ofServer);
    ::SSL_CTX_set_keylog_callback(ctx, takeSecret);
    return ctx;
  }();
  return made;
}

BIO_METHOD* OpenSsl::method() {
  static BIO_METHOD* const made = []() -> BIO_METHOD* {
    BIO_METHOD* const own =
        ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "rondo socket");
    if (own == nullptr) return nullptr;
    ::BIO_meth_set_write(own, write);
    ::BIO_meth_set_read(own, read);
    ::BIO_meth_set_ctrl(own, control);
    return own;
  }();
  return made;
}

int OpenSsl::write(BIO* bio, const char* data, int size) {
  auto& self = *static_cast<OpenSsl*>(::BIO_get_data(bio));
  if (kBufferBytes - self.out_end_ < static_cast<std::size_t>(size)) return -1;
  std::memcpy(self.out_.get() + self.out_end_, data, static_cast<std::size_t>(size));
  self.out_end_ += static_cast<std::size_t>(size);
  return size;
}

int OpenSsl::read(BIO* bio, char* data, int size) {
  auto& self = *static_cast<OpenSsl*>(::BIO_get_data(bio));
  ::BIO_clear_retry_flags(bio);
  ssize_t got = -1;
  do got = ::recv(self.fd_, data, static_cast<std::size_t>(size), MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  if (got > 0) return static_cast<int>(got);
  if (got == 0) self.ended_ = true;
  else if (notNow(errno)) ::BIO_set_retry_read(bio);
  else self.socket_error_ = errno;
  return static_cast<int>(got);
}

long OpenSsl::control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  switch (command) {
    case BIO_CTRL_FLUSH: return 1; // the caller sends
    case BIO_CTRL_EOF: return static_cast<OpenSsl*>(::BIO_get_data(bio))->ended_ ? 1 : 0;
    default: return 0;
  }
}

unsigned OpenSsl::give(unsigned char* key, unsigned most) const {
  if (most < key_.size()) return 0;
  std::memcpy(key, key_.data(), key_.size());
  return static_cast<unsigned>(key_.size());
}

unsigned OpenSsl::ofClient(SSL* ssl, const char* /*hint*/, char* identity, unsigned most_identity,
                           unsigned char* key, unsigned most_key) {
  if (most_identity < sizeof kIdentity) return 0;
  std::memcpy(identity, kIdentity, sizeof kIdentity);
  return static_cast<const OpenSsl*>(SSL_get_app_data(ssl))->give(key, most_key);
}

unsigned OpenSsl::ofServer(SSL* ssl, const char* identity, unsigned char* key, unsigned most_key) {
  if (std::strcmp(identity, kIdentity) != 0) return 0;
  return static_cast<const OpenSsl*>(SSL_get_app_data(ssl))->give(key, most_key);
}

/// `line`: the name of a secret, a random number, and the secret in hexadecimal digits. libssl
/// wipes it.
void OpenSsl::takeSecret(const SSL* ssl, const char* line) {
  const std::string_view text = line;
  const bool of_client = text.starts_with("CLIENT_TRAFFIC_SECRET_0 ");
  if (!of_client && !text.starts_with("SERVER_TRAFFIC_SECRET_0 ")) return;
  auto& self = *static_cast<OpenSsl*>(SSL_get_app_data(ssl));
  TrafficSecret secret;
  std::size_t size = 0;
  const char* const digits = line + text.rfind(' ') + 1;
  if (::OPENSSL_hexstr2buf_ex(secret.data(), secret.size(), &size, digits, '\0') == 1 &&
      size == secret.size()) {
    const bool own = of_client == (::SSL_is_server(ssl) == 0);
    if (own) self.sealing_.start(Records::Way::seal, secret);
    else self.opening_.start(Records::Way::open, secret);
  }
  ::OPENSSL_cleanse(secret.data(), secret.size());
}

// The caller's side -------------------------------------------------------------------------------

Tls* OpenSsl::open(const Settings& settings, std::string& why) {
  ::ERR_clear_error();
  std::unique_ptr<OpenSsl> self(new OpenSsl(settings));
  self->out_ = std::make_unique_for_overwrite<unsigned char[]>(kBufferBytes);
  self->in_ = std::make_unique_for_overwrite<unsigned char[]>(kBufferBytes);
  if (context() != nullptr && method() != nullptr) self->ssl_.reset(::SSL_new(context()));
  BIO* const bio = self->ssl_ ? ::BIO_new(method()) : nullptr;
  if (bio == nullptr) {
    why = lastError();
    return nullptr;
  }
  ::BIO_set_data(bio, self.get());
  ::BIO_set_init(bio, 1);
  SSL* const ssl = self->ssl_.get();
  ::SSL_set_bio(ssl, bio, bio); // owns it
  SSL_set_app_data(ssl, self.get());
  if (settings.dials) ::SSL_set_connect_state(ssl);
  else ::SSL_set_accept_state(ssl);
  // Only the pre-shared key counts. A listener without it could only offer a certificate, which
  // the dialing side refuses, because it trusts none. A dialing side without it fails, because this
  // listener has no certificate.
  if (settings.dials) ::SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
  return self.release();
}

OpenSsl::Progress OpenSsl::handshake() {
  for (bool done = false;;) {
    if (!flush()) {
      if (notNow(errno)) return Progress::wants_to_write;
      socket_error_ = errno;
      trouble_ = std::strerror(errno);
      return Progress::failed;
    }
    if (done) break;
    ::ERR_clear_error();
    const int result = ::SSL_do_handshake(ssl_.get());
    done = result == 1;
    if (done) continue;
    if (::SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) {
      if (out_end_ == 0) return Progress::wants_to_read;
      continue;
    }
    if (ended_) trouble_ = "the other side closed the connection";
    else if (socket_error_ != 0) trouble_ = std::strerror(socket_error_);
    else trouble_ = lastError();
    flush(); // the alert, if the socket has room
    return Progress::failed;
  }
  // 1: both sides used the pre-shared key, which libssl counts as a resumed session.
  if (::SSL_session_reused(ssl_.get()) != 1) {
    trouble_ = "the other side did not use the job's secret";
    return Progress::failed;
  }
  if (!sealing_.started() || !opening_.started()) {
    trouble_ = lastError();
    return Progress::failed;
  }
  // Neither side sends a ticket, so libssl must have read every message.
  if (::SSL_has_pending(ssl_.get()) != 0) {
    trouble_ = "the other side sent more than the handshake";
    return Progress::failed;
  }
  ::OPENSSL_cleanse(key_.data(), key_.size());
  ssl_.reset(); // sends nothing
  broken_ = false;
  broken_error_ = 0;
  return Progress::done;
}

/// Returns true if the kernel has taken all; else false with errno.
bool OpenSsl::flush() {
  while (out_at_ < out_end_) {
    const ssize_t sent =
        ::send(fd_, out_.get() + out_at_, out_end_ - out_at_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    out_at_ += static_cast<std::size_t>(sent);
  }
  out_at_ = out_end_ = 0;
  return true;
}

/// Encrypts records from this position on, as many as out_ has room for. False if libcrypto fails.
bool OpenSsl::encrypt(Place from) {
  constexpr std::size_t kMost = kRecordBytes + kKeyUpdate.size() + 2 * kAddedBytes;
  while (from.left() > 0 && kBufferBytes - out_end_ >= kMost) {
    if (sealing_.number() >= records_per_key_ &&
        !(encryptMessage(Type::handshake, kKeyUpdate) && sealing_.nextKey()))
      return false;
    const std::size_t size = from.recordBytes(kOwnRecordBytes);
    if (!sealing_.seal(Type::data, from, size, out_.get() + out_end_)) return false;
    out_end_ += size + kAddedBytes;
    encrypted_ += size;
  }
  return true;
}

/// out_ must have room for the message.
bool OpenSsl::encryptMessage(Type type, std::span<const unsigned char> message) {
  const iovec piece{const_cast<unsigned char*>(message.data()), message.size()};
  Place from(std::span(&piece, 1));
  if (!sealing_.seal(type, from, message.size(), out_.get() + out_end_)) return false;
  out_end_ += message.size() + kAddedBytes;
  return true;
}

/// Sends an alert, if the socket has room. Returns the argument for failed().
int OpenSsl::refuse(unsigned char alert) {
  constexpr unsigned char kFatal = 2;
  const std::array<unsigned char, 2> message = {kFatal, alert};
  trouble_ = "a record is not what the other side encrypted";
  if (kBufferBytes - out_end_ >= message.size() + kAddedBytes &&
      encryptMessage(Type::alert, message))
    flush();
  return EBADMSG;
}

ssize_t OpenSsl::failed(int error) {
  if (!broken_ && error == EPROTO) trouble_ = lastError();
  ::ERR_clear_error(); // otherwise other users of libcrypto on this thread would find it
  broken_ = true;
  broken_error_ = error;
  if (error == 0) return 0;
  errno = error;
  return -1;
}

ssize_t OpenSsl::send(std::span<const iovec> list) {
  if (broken_) return failed(broken_error_ == 0 ? EPIPE : broken_error_);
  const std::size_t all = Place(list).left();
  assert(encrypted_ <= all && "the bytes that were not counted are offered again");
  for (std::size_t done = 0;;) {
    if (!flush()) return done > 0 ? static_cast<ssize_t>(done) : -1;
    done += std::exchange(encrypted_, 0);
    if (done >= all) return static_cast<ssize_t>(done);
    if (!encrypt(Place(list, done))) return failed(EPROTO);
  }
}

OpenSsl::Next OpenSsl::next() const {
  const std::size_t have = in_end_ - in_at_;
  if (have < kHeaderBytes) return Next::partial;
  const unsigned char* const record = in_.get() + in_at_;
  if (!Records::encrypted(record)) return Next::not_encrypted;
  const std::size_t length = Records::length(record);
  if (length < kTrailerBytes) return Next::too_short;
  if (length > kRecordBytes + kTrailerBytes) return Next::too_long;
  return have < kHeaderBytes + length ? Next::partial : Next::whole;
}

/// Copies bytes that are decrypted to the caller's memory.
void OpenSsl::takeOpened(Place& to) {
  while (opened_ > 0 && to.left() > 0) {
    const std::span<unsigned char> bytes = to.next(opened_);
    std::memcpy(bytes.data(), in_.get() + in_at_, bytes.size());
    in_at_ += bytes.size();
    opened_ -= bytes.size();
    if (opened_ == 0) in_at_ += kTrailerBytes;
  }
}

/// Decrypts the record at in_at_ into the caller's memory, or in place if it is short or does not
/// fit there. If the connection ends or fails, returns the argument for failed().
std::optional<int> OpenSsl::decrypt(Place& to) {
  switch (next()) {
    case Next::not_encrypted: return refuse(SSL_AD_UNEXPECTED_MESSAGE);
    case Next::too_short: return refuse(SSL_AD_BAD_RECORD_MAC); // it has no room for a tag
    case Next::too_long: return refuse(SSL_AD_RECORD_OVERFLOW);
    default: break;
  }
  unsigned char* const record = in_.get() + in_at_;
  const std::size_t size = Records::length(record) - kTrailerBytes;
  const iovec own{record + kHeaderBytes, size};
  // A KeyUpdate must not be written to the caller's memory, which other connections may fill too.
  // Other messages that are no data end the connection.
  const bool direct = size > kKeyUpdate.size() && size <= to.left();
  const Place content = direct ? to : Place(std::span(&own, 1));
  Type type{};
  if (!opening_.open(record, content, type)) {
    if (!opening_.started()) return EPROTO;
    return refuse(SSL_AD_BAD_RECORD_MAC);
  }
  // Rondo sends no empty data. A peer could keep receive() busy with it.
  if (type == Type::data && size == 0) return refuse(SSL_AD_UNEXPECTED_MESSAGE);
  if (type == Type::data && !direct) {
    in_at_ += kHeaderBytes;
    opened_ = size;
    takeOpened(to);
    return {};
  }
  in_at_ += size + kAddedBytes;
  if (type != Type::data) return obey(type, size, content);
  to.skip(size);
  return {};
}

/// Handles a KeyUpdate or an alert from the other side. Returns the same as decrypt().
std::optional<int> OpenSsl::obey(Type type, std::size_t size, Place content) {
  std::array<unsigned char, kKeyUpdate.size()> message{};
  if (size > message.size()) return refuse(SSL_AD_UNEXPECTED_MESSAGE);
  for (std::size_t i = 0; i < size; ++i) message[i] = content.next(1).front();
  if (type == Type::handshake && size == kKeyUpdate.size() && message == kKeyUpdate) {
    // Under each key the peer sends data first; else it could keep receive() busy with new keys.
    if (opening_.number() == 1) return refuse(SSL_AD_UNEXPECTED_MESSAGE);
    if (opening_.nextKey()) return {};
    return EPROTO;
  }
  if (type != Type::alert || size != 2) return refuse(SSL_AD_UNEXPECTED_MESSAGE);
  if (message[1] == SSL_AD_CLOSE_NOTIFY) return 0;
  trouble_ = std::string("the other side reports: ") + ::SSL_alert_desc_string_long(message[1]);
  return EBADMSG;
}

/// As recv(): appends to the received records.
ssize_t OpenSsl::receiveMore() {
  if (in_at_ > 0) {
    std::memmove(in_.get(), in_.get() + in_at_, in_end_ - in_at_);
    in_end_ -= std::exchange(in_at_, 0);
  }
  for (;;) {
    const ssize_t got = ::recv(fd_, in_.get() + in_end_, kBufferBytes - in_end_, MSG_DONTWAIT);
    if (got > 0) in_end_ += static_cast<std::size_t>(got);
    if (got >= 0 || errno != EINTR) return got;
  }
}

ssize_t OpenSsl::receive(std::span<const iovec> list) {
  if (broken_) return failed(broken_error_);
  Place to(list);
  const std::size_t all = to.left();
  takeOpened(to);
  ssize_t result = 0;
  for (bool empty = false; to.left() > 0;) {
    if (next() != Next::partial) {
      const std::optional<int> over = decrypt(to);
      if (!over) continue;
      result = failed(*over);
      break;
    }
    const std::size_t room = kBufferBytes - (in_end_ - in_at_);
    const ssize_t got = empty ? -1 : receiveMore();
    if (empty) errno = EAGAIN;
    if (got > 0) {
      empty = static_cast<std::size_t>(got) < room;
      continue;
    }
    result = got;
    if (got == 0) ended_ = true;
    else if (!notNow(errno)) socket_error_ = errno;
    if (ended()) result = failed(socket_error_);
    break;
  }
  const std::size_t done = all - to.left();
  return done > 0 ? static_cast<ssize_t>(done) : result;
}

} // namespace
} // namespace rondo::net::tls

extern "C" __attribute__((visibility("default"))) rondo::net::tls::Tls* rondo_tls_1(
    const rondo::net::tls::Settings& settings, std::string& why) {
  return rondo::net::tls::OpenSsl::open(settings, why);
}
