// The records of TLS 1.3 (RFC 8446, 5.2) that follow the handshake: AES-128-GCM from and to the
// caller's memory, without a copy.
//
//     type 23, version 0x0303, length | encrypted: content, its type | tag
//                 5 bytes                  at most 2^14 + 1 bytes      16 bytes
//
// The tag covers the header, too. A nonce is the number of the record under its key, which is never
// sent, combined with a constant of the key (5.3). So a record that is changed, left out, repeated
// or moved does not open.
#pragma once

#include <openssl/evp.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace rondo::net::tls {

/// Most bytes of content in a record.
inline constexpr std::size_t kRecordBytes = 16 * 1024;
inline constexpr std::size_t kHeaderBytes = 5, kTagBytes = 16;
/// What follows the content: its type, and the tag. TLS allows padding between them. Rondo neither
/// sends nor accepts it.
inline constexpr std::size_t kTrailerBytes = 1 + kTagBytes;
/// What encryption adds to the content.
inline constexpr std::size_t kAddedBytes = kHeaderBytes + kTrailerBytes;

/// The type of a record's content.
enum class Type : unsigned char { alert = 21, handshake = 22, data = 23 };

using TrafficSecret = std::array<unsigned char, 32>;

/// A position in a list of pieces of memory.
class Place {
 public:
  /// `from`: bytes to skip.
  explicit Place(std::span<const iovec> list, std::size_t from = 0) : list_(list) {
    for (const iovec& piece : list) left_ += piece.iov_len;
    skip(from);
  }
  std::size_t left() const { return left_; }
  /// Returns the next bytes of the current piece, at most `most`, and moves behind them.
  std::span<unsigned char> next(std::size_t most) {
    while (offset_ == list_.front().iov_len) {
      list_ = list_.subspan(1);
      offset_ = 0;
    }
    const std::size_t size = std::min(most, list_.front().iov_len - offset_);
    const std::span bytes(static_cast<unsigned char*>(list_.front().iov_base) + offset_, size);
    offset_ += size;
    left_ -= size;
    return bytes;
  }
  void skip(std::size_t bytes) {
    while (bytes > 0) bytes -= next(bytes).size();
  }
  /// The size of a record that begins here. It ends before the next piece of at least `large`
  /// bytes.
  std::size_t recordBytes(std::size_t large) const {
    std::size_t size = 0, offset = offset_;
    for (const iovec& piece : list_) {
      const std::size_t bytes = piece.iov_len - std::exchange(offset, 0);
      if (size > 0 && bytes >= large) break;
      size = std::min(size + bytes, kRecordBytes);
    }
    return size;
  }

 private:
  std::span<const iovec> list_;
  std::size_t offset_ = 0, left_ = 0;
};

/// One direction of a connection. Its functions return false if libcrypto fails. After that only
/// start() works, so that no number is used for two records.
class Records {
 public:
  enum class Way { seal, open };

  ~Records();
  /// `secret`: only this direction uses it.
  bool start(Way way, const TrafficSecret& secret);
  /// False before start() and after libcrypto has failed.
  bool started() const { return started_; }
  /// Replaces the secret by the next one, and the key by the one of that secret (RFC 8446, 7.2).
  bool nextKey();
  /// Number of records under this key so far.
  std::uint64_t number() const { return number_; }

  /// Writes a record with the next `size` bytes to `record`, which has room for size + kAddedBytes.
  bool seal(Type type, Place& from, std::size_t size, unsigned char* record);

  /// Whether this may be the header of an encrypted record, and the length in it.
  static bool encrypted(const unsigned char* record) { return record[0] == 23; }
  static std::size_t length(const unsigned char* record) {
    return std::size_t{record[3]} << 8 | record[4];
  }
  /// Decrypts a whole record whose length() is at least kTrailerBytes. `to` may be the record's own
  /// memory. If it is not the sender's next record, wipes what it has written and returns false;
  /// started() stays true.
  bool open(const unsigned char* record, Place to, Type& type);

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { ::EVP_CIPHER_CTX_free(context); }
  };
  bool setKey();
  bool begin(const unsigned char* header);

  std::unique_ptr<EVP_CIPHER_CTX, Free> context_;
  Way way_ = Way::seal;
  TrafficSecret secret_{};
  std::array<unsigned char, 12> constant_{}; ///< of the key, for nonces
  std::uint64_t number_ = 0;                 ///< of the next record under this key
  bool started_ = false;
};

} // namespace rondo::net::tls
