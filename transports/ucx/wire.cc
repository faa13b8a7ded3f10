// Headers, and the proof in those that begin a channel.
#include "transports/ucx/wire.h"

#include <algorithm>

namespace rondo::transport::ucx {

namespace {
constexpr std::string_view kLabel = "rondo ucx greeting";
constexpr std::size_t kProved = Greeting::kBytes - kProofBytes;
} // namespace

net::Mac proofOf(const Context& context, std::string_view what, std::span<const std::byte> bytes) {
  std::array<std::byte, 16> whose;
  put(whose.data(), context.job, 8);
  put(whose.data() + 8, context.communicator, 8);
  return net::hmacSha256(context.secret.bytes, what, {whose, bytes});
}

Greeting::Bytes Greeting::encode(const Context& context) const {
  Bytes out;
  put(out.data(), static_cast<std::uint32_t>(word), 4);
  put(out.data() + 4, static_cast<std::uint32_t>(src), 4);
  put(out.data() + 8, static_cast<std::uint32_t>(dst), 4);
  put(out.data() + 12, static_cast<std::uint32_t>(index), 4);
  put(out.data() + 16, sender_key, 8);
  put(out.data() + 24, receiver_key, 8);
  const auto proof = proofOf(context, kLabel, std::span(out).first(kProved));
  std::copy_n(proof.begin(), kProofBytes, out.begin() + kProved);
  return out;
}

bool Greeting::decode(std::span<const std::byte> in, const Context& context) {
  if (in.size() != kBytes) return false;
  const auto proof = proofOf(context, kLabel, in.first(kProved));
  if (!net::equalConstantTime(in.subspan(kProved), std::span(proof).first(kProofBytes)))
    return false;
  word = static_cast<Word>(get(in.data(), 4));
  src = static_cast<std::int32_t>(get(&in[4], 4));
  dst = static_cast<std::int32_t>(get(&in[8], 4));
  index = static_cast<std::int32_t>(get(&in[12], 4));
  sender_key = get(&in[16], 8);
  receiver_key = get(&in[24], 8);
  return true;
}

} // namespace rondo::transport::ucx
