// The part of a step over network channels, in the host engine: receiving, sending, and when output
// may be overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/bound_plan.h"
#include "engine/engine.h"
#include "transports/transport.h"

namespace rondo::engine {

/// Receives and sends the messages of steps that go over a network. A message may move in part, so
/// a step that is not ready may nevertheless have made progress: see moved(). No function blocks.
/// Not thread-safe.
class NetworkChannels {
 public:
  explicit NetworkChannels(const Fabric& fabric) : fabric_(fabric) {}

  /// Whether the step's network channels are ready: all messages have arrived, all senders have
  /// room, and the output may be overwritten.
  bool ready(const Run& run, const BoundStep& step, std::size_t tile);
  /// Starts to send the value of a step that ready() has allowed. It is where sourceOf() says, or
  /// else in the staging() of each channel.
  void send(const Run& run, const BoundStep& step, std::size_t tile, std::uint32_t checksum);
  /// Whether no network channel of the plan reads the caller's memory any more.
  bool flush(const BoundPlan& plan);

  /// Where to build the body of the next message, if it is not already in the caller's memory.
  std::byte* staging(End& end) const;

  /// Returns whether bytes have moved since rest().
  bool moved() const { return moved_; }
  void rest() { moved_ = false; }

 private:
  bool arrive(const Run& run, const BoundStep& step, End& end, std::size_t tile);

  const Fabric& fabric_;
  bool moved_ = false;
  // The memory of the message in progress; members, so that no message allocates.
  std::vector<transport::ConstBytes> pieces_;
  std::vector<transport::MutableBytes> arriving_;
};

} // namespace rondo::engine
