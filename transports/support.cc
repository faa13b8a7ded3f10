// Functions that the transports share.
#include "transports/support.h"

#include <algorithm>

#include "rondo/error.h"

namespace rondo::transport {

ChannelSize channelSize(const Options& options, ChannelSize defaults) {
  const int depth = options.channel_depth ? options.channel_depth : defaults.depth;
  if (depth < 1 || depth > kMaxDepth)
    throw Error(ErrorCode::invalid_argument, "channel depth " + std::to_string(depth) +
                                                 " is not in 1 to " + std::to_string(kMaxDepth));
  const std::size_t total = options.channel_bytes
                                ? options.channel_bytes
                                : defaults.slot_bytes * static_cast<std::size_t>(defaults.depth);
  if (total > kMaxChannelBytes)
    throw Error(ErrorCode::invalid_argument, "channel size " + std::to_string(total) +
                                                 " is above " + std::to_string(kMaxChannelBytes) +
                                                 " bytes");
  const std::size_t slot = total / static_cast<std::size_t>(depth) / kSlotGrain * kSlotGrain;
  return {std::max(slot, kSlotGrain), depth};
}

int peerOf(const ChannelId& id, const Context& context) {
  const auto valid = [&](int rank) { return rank >= 0 && rank < context.size; };
  if (id.communicator != context.communicator || id.src == id.dst || !valid(id.src) ||
      !valid(id.dst) || id.index < 0 || id.index > ChannelId::kPointToPoint)
    throw Error(ErrorCode::invalid_argument,
                describe("no such", id) + " in a communicator of " + std::to_string(context.size));
  if (id.src == context.rank) return id.dst;
  if (id.dst == context.rank) return id.src;
  throw Error(ErrorCode::invalid_argument,
              describe("the", id) + " does not end at rank " + std::to_string(context.rank));
}

std::string describe(std::string_view transport, const ChannelId& id) {
  return std::string(transport) + " channel " + std::to_string(id.src) + " -> " +
         std::to_string(id.dst) + " (index " + std::to_string(id.index) + ")";
}

PendingWithDeadline::PendingWithDeadline(std::string_view transport, const ChannelId& id,
                                         const Context& context)
    : channel_(describe(transport, id)),
      peer_(peerOf(id, context)),
      limit_(context.options.init_timeout),
      deadline_(limit_) {}

std::unique_ptr<Port> PendingWithDeadline::poll() {
  try {
    if (auto port = attempt()) return port;
  } catch (const Error& e) {
    // A lack of resources, or a wrong option of this rank, is not the peer's fault.
    const bool peers = e.code() == ErrorCode::transport || e.code() == ErrorCode::peer_dead ||
                       e.code() == ErrorCode::timeout;
    throw Error(e.code(), channel_ + ": " + e.what(), peers ? peer_ : -1);
  }
  if (deadline_.passed())
    throw Error(ErrorCode::timeout,
                channel_ + " timed out: rank " + std::to_string(peer_) + " did not open its end",
                peer_);
  return nullptr;
}

} // namespace rondo::transport
