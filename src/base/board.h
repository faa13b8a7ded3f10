// A meeting place for ranks of one process: name -> shared object, made by whoever comes first.
#pragma once

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
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<void>> entries_;
};

} // namespace rondo::base
