// A condition variable that a forked child can drop.
#pragma once

#include <condition_variable>
#include <memory>

#include "base/fork.h"

namespace rondo::base {

/// Its copy in a forked child is never destroyed: that would wait for the parent's threads that
/// wait on it, and do not exist there.
class Condition {
 public:
  Condition() = default;
  ~Condition() {
    if (maker_.elsewhere()) static_cast<void>(condition_.release());
  }
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  std::condition_variable* operator->() { return condition_.get(); }

 private:
  const Maker maker_;
  std::unique_ptr<std::condition_variable> condition_ = std::make_unique<std::condition_variable>();
};

} // namespace rondo::base
