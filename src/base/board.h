// A meeting place for ranks of one process: name -> shared object, made by whoever comes first.
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

/// All functions may be called from any thread. An object lives as long as somebody holds it.
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

  /// Names that are kept: of the objects alive, and of at most as many that are gone (or 64).
  std::size_t names() const {
    std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  static constexpr std::size_t kFew = 64;

  /// Costs as much as names were added since the last one, so an addition costs the same for ever.
  void sweep() {
    std::erase_if(entries_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max(2 * entries_.size(), kFew);
  }

  mutable std::mutex mutex_;
  std::size_t sweep_at_ = kFew;
  std::map<std::string, std::weak_ptr<void>> entries_;
};

} // namespace rondo::base
