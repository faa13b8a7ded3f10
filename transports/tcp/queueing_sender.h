// The common part of the sending ends over one socket and over several: messages wait in a ring,
// oldest first, until they are sent completely.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transports/tcp/ends.h"

namespace rondo::transport::tcp {

/// At most as many messages are pending as the channel is deep. Messages are numbered from the
/// channel's first. The entries of the ring are reused and keep their memory.
///
/// `Message` has set(header, body, settings), which starts a new message, and reads(data, size),
/// which returns whether any of these bytes must still be sent.
template <class Message>
class QueueingSender : public NetworkSender {
 public:
  std::size_t pending() const final { return static_cast<std::size_t>(end_ - begin_); }

  bool start(const MessageHeader& header, std::span<const ConstBytes> body) final {
    assert(header.bytes <= settings_.size.slot_bytes);
    if (pending() == ring_.size()) {
      progress();
      if (pending() == ring_.size()) return false;
    }
    at(end_++).set(header, body, settings_);
    progress();
    return true;
  }

  bool reads(const void* data, std::size_t size) const final {
    for (std::uint64_t number = begin_; number != end_; ++number)
      if (at(number).reads(data, size)) return true;
    return false;
  }

 protected:
  explicit QueueingSender(const SocketSettings& settings)
      : settings_(settings), ring_(static_cast<std::size_t>(settings.size.depth)) {}

  Message& at(std::uint64_t number) { return ring_[number % ring_.size()]; }
  const Message& at(std::uint64_t number) const { return ring_[number % ring_.size()]; }

  const SocketSettings settings_;
  std::uint64_t begin_ = 0, end_ = 0; ///< range of the pending messages' numbers

 private:
  std::vector<Message> ring_;
};

} // namespace rondo::transport::tcp
