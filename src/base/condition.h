// A condition variable whose copy in a forked child can be dropped.
#pragma once

#include <condition_variable>
#include <memory>

#include "base/fork.h"

namespace rondo::base {

/// In a forked child the copy is never destroyed: the destructor would wait for the parent's
/// threads that wait on it, and these do not exist in the child.
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
  const Maker maker_{};
  std::unique_ptr<std::condition_variable> condition_ = std::make_unique<std::condition_variable>();
};

} // namespace rondo::base
