// Functions that the transports share: sizes from the options, validation, names for errors,
// deadlines.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/awake.h"
#include "base/errno_text.h"
#include "transports/registry.h"
#include "transports/transport.h"
#include "transports/tuning.h"

namespace rondo::transport {

/// The sizes from Options::channel_bytes (all slots together) and channel_depth, or the transport's
/// defaults. Throws Error(invalid_argument) for values out of range.
ChannelSize channelSize(const Options& options, ChannelSize defaults);

/// The rank at the other end. Throws Error(invalid_argument) if the channel does not belong to this
/// communicator or does not end at this rank.
int peerOf(const ChannelId& id, const Context& context);

/// For example "tcp channel 0 -> 3 (index 2)".
std::string describe(std::string_view transport, const ChannelId& id);

using base::errnoText;

/// A PendingPort with the deadline Options::init_timeout. Its errors name the channel and the peer.
class PendingWithDeadline : public PendingPort {
 public:
  PendingWithDeadline(std::string_view transport, const ChannelId& id, const Context& context);
  std::unique_ptr<Port> poll() final;
  void extend() final { deadline_ = base::AwakeLimit(limit_); }

 protected:
  /// The port, or null if the peer has not opened its end yet.
  virtual std::unique_ptr<Port> attempt() = 0;

  const std::string channel_; ///< describe()
  const int peer_;

 private:
  const std::chrono::milliseconds limit_;
  base::AwakeLimit deadline_;
};

} // namespace rondo::transport
