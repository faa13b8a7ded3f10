// Records which rank of a process uses which stream.
#pragma once

#include <map>
#include <mutex>

#include "device/stream.h"

namespace rondo::engine {

/// Any thread may call its functions.
class StreamUsers {
 public:
  /// Claims the stream for the rank. Returns -1, or the other rank that already has it.
  int claim(device::Stream stream, int rank) {
    const std::lock_guard lock(mutex_);
    const auto [entry, fresh] = users_.emplace(stream, rank);
    return fresh || entry->second == rank ? -1 : entry->second;
  }
  void giveUp(device::Stream stream, int rank) {
    const std::lock_guard lock(mutex_);
    const auto found = users_.find(stream);
    if (found != users_.end() && found->second == rank) users_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::map<device::Stream, int> users_;
};

} // namespace rondo::engine
