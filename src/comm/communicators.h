// The communicators of this process.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace rondo::comm {

class CommunicatorImpl;

/// Any thread. A forked child sees no communicators: those of its parent make no calls in it.
class Communicators {
 public:
  static void add(std::weak_ptr<CommunicatorImpl> one);
  /// As CommunicatorImpl::refuseInUse(), for the calls of all communicators.
  static void refuseInUse(std::span<const std::byte> memory, const std::string& what);
};

} // namespace rondo::comm
