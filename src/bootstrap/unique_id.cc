// Encodes unique ids: [magic 8][job 8][secret 32][address length 1][address, padded to 64][check
// 15].
#include "bootstrap/unique_id.h"

#include <algorithm>
#include <cstring>

#include "base/codec.h"
#include "net/hmac.h"
#include "rondo/error.h"

namespace rondo::bootstrap {

namespace {

constexpr std::string_view kMagic = "RONDOID1";
constexpr std::size_t kAddressBytes = 64;
constexpr std::size_t kCheckBytes = 15;
constexpr std::size_t kIdBytes = sizeof(UniqueId::bytes);
static_assert(8 + 8 + 32 + 1 + kAddressBytes + kCheckBytes == kIdBytes);

/// Detects damaged and truncated ids. It is no protection against somebody who knows the format.
net::Mac checkOf(const net::Key& secret, std::span<const std::byte> bytes) {
  return net::hmacSha256(secret, "rondo unique id", {bytes.first(kIdBytes - kCheckBytes)});
}

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "this is not a unique id of Rondo: " + why);
}

} // namespace

UniqueId IdContent::encode() const {
  base::Writer writer;
  writer.raw(std::as_bytes(std::span(kMagic)));
  writer.u64(job);
  writer.raw(secret.bytes);
  std::vector<std::byte> address = hub.encode();
  writer.u8(static_cast<std::uint8_t>(address.size()));
  address.resize(kAddressBytes);
  writer.raw(address);
  UniqueId id;
  std::copy(writer.bytes().begin(), writer.bytes().end(), id.bytes.begin());
  const net::Mac check = checkOf(secret.bytes, id.bytes);
  std::copy_n(check.begin(), kCheckBytes, id.bytes.end() - kCheckBytes);
  return id;
}

IdContent IdContent::decode(const UniqueId& id) {
  base::Reader reader(id.bytes, "a unique id");
  if (std::memcmp(reader.raw(kMagic.size()).data(), kMagic.data(), kMagic.size()) != 0)
    refuse("its first bytes are wrong (was UniqueId::create() called?)");
  IdContent content;
  content.job = reader.u64();
  reader.raw(content.secret.bytes);
  content.secret.present = true;
  const net::Mac check = checkOf(content.secret.bytes, id.bytes);
  if (!std::equal(id.bytes.end() - kCheckBytes, id.bytes.end(), check.begin()))
    refuse("its bytes are damaged");
  const std::size_t length = reader.u8();
  if (length > kAddressBytes) refuse("its address is too long");
  try {
    content.hub = net::SocketAddress::decode(reader.raw(length));
  } catch (const Error& error) {
    refuse(error.what());
  }
  return content;
}

UniqueId masked(UniqueId id, const net::Secret& secret, const IdNonce& nonce) {
  std::uint8_t block = 0;
  for (std::size_t begin = 0; begin < id.bytes.size(); begin += sizeof(net::Mac), ++block) {
    const std::span<const std::byte> number = std::as_bytes(std::span(&block, 1));
    const net::Mac stream =
        net::hmacSha256(secret.bytes, "rondo id of another job", {nonce, number});
    for (std::size_t i = 0; i < stream.size() && begin + i < id.bytes.size(); ++i)
      id.bytes[begin + i] ^= stream[i];
  }
  return id;
}

} // namespace rondo::bootstrap
