// AES-128-GCM by libcrypto, one record at a time.
#include "net/tls/records.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <cstring>
#include <string>

namespace rondo::net::tls {
namespace {

/// HKDF-Expand-Label() of RFC 8446, 7.1, without context.
bool expand(const TrafficSecret& secret, std::string label, std::span<unsigned char> out) {
  const std::unique_ptr<EVP_KDF, decltype(&::EVP_KDF_free)> kdf(
      ::EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_TLS1_3_KDF, nullptr), ::EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&::EVP_KDF_CTX_free)> context(
      kdf ? ::EVP_KDF_CTX_new(kdf.get()) : nullptr, ::EVP_KDF_CTX_free);
  if (!context) return false;
  TrafficSecret key = secret;
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  std::string digest = "SHA256", prefix = "tls13 ";
  const std::array<OSSL_PARAM, 6> parameters = {
      ::OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      ::OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      ::OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key.data(), key.size()),
      ::OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, prefix.data(), prefix.size()),
      ::OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, label.data(), label.size()),
      ::OSSL_PARAM_construct_end()};
  const bool done = ::EVP_KDF_derive(context.get(), out.data(), out.size(), parameters.data()) == 1;
  ::OPENSSL_cleanse(key.data(), key.size());
  return done;
}

} // namespace

Records::~Records() { ::OPENSSL_cleanse(secret_.data(), secret_.size()); }

bool Records::start(Way way, const TrafficSecret& secret) {
  started_ = false;
  way_ = way;
  secret_ = secret;
  context_.reset(::EVP_CIPHER_CTX_new());
  return context_ && setKey();
}

bool Records::nextKey() {
  if (!std::exchange(started_, false)) return false;
  TrafficSecret next;
  const bool made = expand(secret_, "traffic upd", next);
  secret_ = next;
  ::OPENSSL_cleanse(next.data(), next.size());
  return made && setKey();
}

bool Records::setKey() {
  std::array<unsigned char, 16> key;
  started_ = expand(secret_, "key", key) && expand(secret_, "iv", constant_) &&
             ::EVP_CipherInit_ex(context_.get(), ::EVP_aes_128_gcm(), nullptr, key.data(),
                                 constant_.data(), way_ == Way::seal ? 1 : 0) == 1;
  ::OPENSSL_cleanse(key.data(), key.size());
  if (started_) number_ = 0;
  return started_;
}

bool Records::begin(const unsigned char* header) {
  std::array<unsigned char, 12> nonce = constant_;
  for (std::size_t i = 0; i < 8; ++i) nonce[11 - i] ^= static_cast<unsigned char>(number_ >> 8 * i);
  int count = 0;
  return ::EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce.data(), -1) == 1 &&
         ::EVP_CipherUpdate(context_.get(), nullptr, &count, header, kHeaderBytes) == 1;
}

bool Records::seal(Type type, Place& from, std::size_t size, unsigned char* record) {
  if (!std::exchange(started_, false)) return false; // until the record is complete
  const std::size_t length = size + kTrailerBytes;
  const std::array<unsigned char, kHeaderBytes> header = {
      23, 3, 3, static_cast<unsigned char>(length >> 8), static_cast<unsigned char>(length)};
  std::copy(header.begin(), header.end(), record);
  if (!begin(record)) return false;
  unsigned char* to = record + kHeaderBytes;
  int count = 0;
  for (std::size_t left = size; left > 0;) {
    const std::span<const unsigned char> bytes = from.next(left);
    if (::EVP_CipherUpdate(context_.get(), to, &count, bytes.data(),
                           static_cast<int>(bytes.size())) != 1)
      return false;
    to += bytes.size();
    left -= bytes.size();
  }
  ++number_;
  const auto last = static_cast<unsigned char>(type);
  started_ = ::EVP_CipherUpdate(context_.get(), to, &count, &last, 1) == 1 &&
             ::EVP_CipherFinal_ex(context_.get(), to + 1, &count) == 1 &&
             ::EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, to + 1) == 1;
  return started_;
}

bool Records::open(const unsigned char* record, Place to, Type& type) {
  if (!std::exchange(started_, false)) return false; // until the tag can be compared
  const std::size_t size = length(record) - kTrailerBytes;
  const Place start = to;
  const unsigned char* from = record + kHeaderBytes;
  bool good = begin(record);
  int count = 0;
  for (std::size_t left = size; good && left > 0;) {
    const std::span<unsigned char> bytes = to.next(left);
    good = ::EVP_CipherUpdate(context_.get(), bytes.data(), &count, from,
                              static_cast<int>(bytes.size())) == 1;
    from += bytes.size();
    left -= bytes.size();
  }
  from = record + kHeaderBytes + size;
  unsigned char last = 0;
  std::array<unsigned char, kTagBytes> tag;
  std::copy_n(from + 1, kTagBytes, tag.begin());
  std::array<unsigned char, 16> rest; // GCM writes none
  good = good && ::EVP_CipherUpdate(context_.get(), &last, &count, from, 1) == 1 &&
         ::EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag.data()) == 1;
  started_ = good;
  good = good && ::EVP_CipherFinal_ex(context_.get(), rest.data(), &count) == 1;
  type = static_cast<Type>(last);
  ++number_;
  if (good) return true;
  to = start;
  for (std::size_t left = size; left > 0;) {
    const std::span<unsigned char> bytes = to.next(left);
    std::memset(bytes.data(), 0, bytes.size());
    left -= bytes.size();
  }
  return false;
}

} // namespace rondo::net::tls
