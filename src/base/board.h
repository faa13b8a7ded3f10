// Board: shares objects by name among the ranks of a process. The first rank to ask
// makes the object.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace rondo::base {

/// All functions may be called from any thread. An object lives as long as a shared_ptr holds it.
class Board {
 public:
  template <class T>
  std::shared_ptr<T> findOrMake(const std::string& key,
                                const std::function<std::shared_ptr<T>()>& make) {
    std::lock_guard lock(mutex_);
    std::weak_ptr<void>& entry = entries_[key];
    if (auto found = entry.lock()) return std::static_pointer_cast<T>(found);
    std::shared_ptr<T> made = make();
    entry = made;
    if (entries_.size() > sweep_at_) sweep();
    return made;
  }

  /// Number of names in the table: those of the live objects, and at most as many (or 64) of
  /// objects that are gone.
  std::size_t names() const {
    std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  static constexpr std::size_t kFew = 64;

  /// Removes the names of objects that are gone. A sweep costs as much as the number of names that
  /// were added since the last one, so the cost of an addition stays constant.
  void sweep() {
    std::erase_if(entries_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max(2 * entries_.size(), kFew);
  }

  mutable std::mutex mutex_;
  std::size_t sweep_at_ = kFew;
  std::map<std::string, std::weak_ptr<void>> entries_;
};

} // namespace rondo::base
