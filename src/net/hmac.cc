// Computes HMAC-SHA256 with libcrypto.
#include "net/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <vector>

#include "rondo/error.h"

namespace rondo::net {

Mac hmacSha256(const Key& key, std::string_view label,
               std::initializer_list<std::span<const std::byte>> parts) {
  // libcrypto must not clean up at exit: destructors that run then still send authenticated frames.
  static const int ready = ::OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  if (ready != 1) throw Error(ErrorCode::system, "libcrypto cannot be initialised");
  std::vector<std::byte> text;
  const auto label_bytes = std::as_bytes(std::span(label));
  text.insert(text.end(), label_bytes.begin(), label_bytes.end());
  text.push_back(std::byte{0});
  for (const auto part : parts) text.insert(text.end(), part.begin(), part.end());

  Mac mac{};
  unsigned size = 0;
  if (::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             reinterpret_cast<unsigned char*>(mac.data()), &size) == nullptr ||
      size != mac.size()) {
    throw Error(ErrorCode::system, "libcrypto cannot compute HMAC-SHA256");
  }
  return mac;
}

bool equalConstantTime(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

} // namespace rondo::net
