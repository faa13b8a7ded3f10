// The headers of UCX messages, and the proof in greetings.
#include "transports/ucx/wire.h"

#include <algorithm>

namespace rondo::transport::ucx {

using base::loadLittleEndian, base::storeLittleEndian;

namespace {
constexpr std::string_view kLabel = "rondo ucx greeting";
constexpr std::size_t kProved = Greeting::kBytes - kProofBytes;
} // namespace

net::Mac proofOf(const Context& context, std::string_view what, std::span<const std::byte> bytes) {
  std::array<std::byte, 16> whose;
  storeLittleEndian(whose.data(), context.job);
  storeLittleEndian(whose.data() + 8, context.communicator);
  return net::hmacSha256(context.secret.bytes, what, {whose, bytes});
}

Greeting::Bytes Greeting::encode(const Context& context) const {
  Bytes out;
  storeLittleEndian(out.data(), static_cast<std::uint32_t>(word));
  storeLittleEndian(out.data() + 4, static_cast<std::uint32_t>(src));
  storeLittleEndian(out.data() + 8, static_cast<std::uint32_t>(dst));
  storeLittleEndian(out.data() + 12, static_cast<std::uint32_t>(index));
  storeLittleEndian(out.data() + 16, sender_key);
  storeLittleEndian(out.data() + 24, receiver_key);
  const auto proof = proofOf(context, kLabel, std::span(out).first(kProved));
  std::copy_n(proof.begin(), kProofBytes, out.begin() + kProved);
  return out;
}

bool Greeting::decode(std::span<const std::byte> in, const Context& context) {
  if (in.size() != kBytes) return false;
  const auto proof = proofOf(context, kLabel, in.first(kProved));
  if (!net::equalConstantTime(in.subspan(kProved), std::span(proof).first(kProofBytes)))
    return false;
  word = static_cast<Word>(loadLittleEndian<std::uint32_t>(in.data()));
  src = static_cast<std::int32_t>(loadLittleEndian<std::uint32_t>(&in[4]));
  dst = static_cast<std::int32_t>(loadLittleEndian<std::uint32_t>(&in[8]));
  index = static_cast<std::int32_t>(loadLittleEndian<std::uint32_t>(&in[12]));
  sender_key = loadLittleEndian<std::uint64_t>(&in[16]);
  receiver_key = loadLittleEndian<std::uint64_t>(&in[24]);
  return true;
}

} // namespace rondo::transport::ucx
