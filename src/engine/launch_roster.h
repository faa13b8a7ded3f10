// The ranks of one process whose launches may write into each other's memory.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.h"

namespace rondo::engine {

/// Any thread may call its functions.
class LaunchRoster {
 public:
  /// The state of one rank. The rank holds the mutex while it launches, so a thread that holds it
  /// sees all launches.
  struct Seat {
    std::mutex mutex;
    device::Memory panel;               ///< a device::Panel
    std::shared_ptr<device::Mark> last; ///< recorded after the newest launch; null: none
  };

  std::shared_ptr<Seat> sit(device::Memory panel) {
    auto seat = std::make_shared<Seat>();
    seat->panel = std::move(panel);
    const std::lock_guard lock(mutex_);
    return seats_.emplace_back(std::move(seat));
  }
  void leave(const std::shared_ptr<Seat>& seat) {
    const std::lock_guard lock(mutex_);
    seats_.erase(std::find(seats_.begin(), seats_.end(), seat));
  }
  std::vector<std::shared_ptr<Seat>> seats() {
    const std::lock_guard lock(mutex_);
    return seats_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Seat>> seats_;
};

} // namespace rondo::engine
