// The module librondo_tls.so: TLS 1.3 by OpenSSL, with a pre-shared key and an ephemeral exchange
// (psk_dhe_ke). There are no certificates.
//
// libssl writes encrypted TLS records to a buffer of this file. One system call sends several of
// them, and a full socket never interrupts libssl in the middle of a record. Received bytes are
// read ahead.
#include "net/tls/module.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace rondo::net::tls {
namespace {

constexpr std::size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
/// Most bytes that are encrypted before one send(). AllReduce of 16 MiB between 2 processes over
/// loopback, best of 5: 17.5 ms; with one TLS record per send() 18.7 ms; with more than two not
/// faster. More in bench/RESULTS.md.
constexpr std::size_t kSendBytes = 2 * kRecordBytes;
/// Bytes that libssl asks one recv() for.
constexpr std::size_t kReadAheadBytes = 32 * 1024;
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
  bool buffered() const override { return ::SSL_has_pending(ssl_.get()) == 1; }
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

  struct Place {
    std::span<const iovec> list;
    std::size_t piece = 0, offset = 0;
  };
  bool flush();
  std::span<const char> nextRecord(Place& at);
  bool encrypt(std::span<const iovec> list, std::size_t from);
  ssize_t failed(int error);

  const int fd_;
  const std::uint64_t records_per_key_;
  std::array<std::byte, 32> key_;
  std::unique_ptr<SSL, Free> ssl_;

  std::vector<char> out_;     ///< encrypted TLS records
  std::size_t out_at_ = 0;    ///< of these, bytes that the kernel has taken
  std::size_t encrypted_ = 0; ///< bytes of the caller in out_, which the caller does not know yet
  std::uint64_t records_ = 0;
  std::array<char, kRecordBytes> gathered_; ///< a record from several pieces

  bool ended_ = false;   ///< the peer has sent its last byte
  int socket_error_ = 0; ///< of the last recv()
  bool broken_ = false;  ///< the connection has ended or failed; later calls return broken_error_
  int broken_error_ = 0; ///< 0: the connection's end
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
    ::SSL_CTX_set_read_ahead(ctx, 1);
    ::SSL_CTX_set_default_read_buffer_len(ctx, kReadAheadBytes);
    ::SSL_CTX_set_psk_client_callback(ctx, ofClient);
    ::SSL_CTX_set_psk_server_callback(ctx, ofServer);
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
  try {
    self.out_.insert(self.out_.end(), data, data + size);
  } catch (const std::bad_alloc&) { // which must not leave through libssl
    return -1;
  }
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

// The caller's side -------------------------------------------------------------------------------

Tls* OpenSsl::open(const Settings& settings, std::string& why) {
  ::ERR_clear_error();
  std::unique_ptr<OpenSsl> self(new OpenSsl(settings));
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
      if (out_.empty()) return Progress::wants_to_read;
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
    trouble_ = "the other side did not use the key";
    return Progress::failed;
  }
  ::OPENSSL_cleanse(key_.data(), key_.size());
  return Progress::done;
}

/// Returns true if the kernel has taken all; else false with errno.
bool OpenSsl::flush() {
  while (out_at_ < out_.size()) {
    const ssize_t sent =
        ::send(fd_, out_.data() + out_at_, out_.size() - out_at_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    out_at_ += static_cast<std::size_t>(sent);
  }
  out_.clear();
  out_at_ = 0;
  return true;
}

/// The next bytes for one record: those of one piece, or a copy if pieces are small.
std::span<const char> OpenSsl::nextRecord(Place& at) {
  std::size_t gathered = 0;
  while (at.piece < at.list.size()) {
    const iovec& piece = at.list[at.piece];
    const char* const from = static_cast<const char*>(piece.iov_base) + at.offset;
    const std::size_t size = std::min(piece.iov_len - at.offset, kRecordBytes - gathered);
    at.offset += size;
    if (at.offset == piece.iov_len) {
      at.offset = 0;
      ++at.piece;
    }
    if (gathered == 0 && (size == kRecordBytes || at.piece == at.list.size())) return {from, size};
    std::memcpy(gathered_.data() + gathered, from, size);
    gathered += size;
    if (gathered == kRecordBytes) break;
  }
  return {gathered_.data(), gathered};
}

/// Encrypts the next records of the list's bytes from `from` on. False if libssl fails.
bool OpenSsl::encrypt(std::span<const iovec> list, std::size_t from) {
  Place at{list, 0, from};
  while (at.piece < list.size() && at.offset >= list[at.piece].iov_len)
    at.offset -= list[at.piece++].iov_len;
  while (at.piece < list.size() && encrypted_ < kSendBytes) {
    const std::span<const char> record = nextRecord(at);
    ::ERR_clear_error();
    std::size_t written = 0;
    if (::SSL_write_ex(ssl_.get(), record.data(), record.size(), &written) != 1 ||
        written != record.size())
      return false;
    encrypted_ += record.size();
    if (++records_ < records_per_key_) continue;
    records_ = 0;
    // The message that announces the new key goes before the next record.
    if (::SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return false;
  }
  return true;
}

ssize_t OpenSsl::failed(int error) {
  if (!broken_ && (error == EBADMSG || error == EPROTO)) trouble_ = lastError();
  ::ERR_clear_error(); // otherwise other users of libssl on this thread would find it
  broken_ = true;
  broken_error_ = error;
  if (error == 0) return 0;
  errno = error;
  return -1;
}

ssize_t OpenSsl::send(std::span<const iovec> list) {
  if (broken_) return failed(broken_error_ == 0 ? EPIPE : broken_error_);
  std::size_t all = 0, done = 0;
  for (const iovec& piece : list) all += piece.iov_len;
  for (;;) {
    if (!flush()) return done > 0 ? static_cast<ssize_t>(done) : -1;
    done += std::exchange(encrypted_, 0);
    if (done >= all) return static_cast<ssize_t>(done);
    if (!encrypt(list, done)) return failed(EPROTO);
  }
}

ssize_t OpenSsl::receive(std::span<const iovec> list) {
  if (broken_) return failed(broken_error_);
  std::size_t done = 0;
  for (const iovec& piece : list)
    for (std::size_t at = 0; at < piece.iov_len;) {
      ::ERR_clear_error();
      std::size_t got = 0;
      if (::SSL_read_ex(ssl_.get(), static_cast<char*>(piece.iov_base) + at, piece.iov_len - at,
                        &got) == 1) {
        at += got;
        done += got;
        continue;
      }
      const int error = ::SSL_get_error(ssl_.get(), 0);
      if (error == SSL_ERROR_WANT_READ) {
        errno = EAGAIN;
        return done > 0 ? static_cast<ssize_t>(done) : -1;
      }
      ssize_t result = 0;
      if (ended_ || error == SSL_ERROR_ZERO_RETURN) result = failed(0);
      else if (socket_error_ != 0) result = failed(socket_error_);
      else {
        result = failed(EBADMSG);
        flush(); // the alert, if the socket has room
        errno = EBADMSG;
      }
      return done > 0 ? static_cast<ssize_t>(done) : result;
    }
  return static_cast<ssize_t>(done);
}

} // namespace
} // namespace rondo::net::tls

extern "C" __attribute__((visibility("default"))) rondo::net::tls::Tls* rondo_tls_1(
    const rondo::net::tls::Settings& settings, std::string& why) {
  return rondo::net::tls::OpenSsl::open(settings, why);
}
