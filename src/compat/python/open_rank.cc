// Leaves a group although reducers live on.
#include "compat/python/open_rank.h"

#include <utility>

namespace rondo::compat::python {

OpenRank::~OpenRank() {
  if (inherited())
    static_cast<void>(new auto(std::move(users_))); // they would wait for what they inherited
}

void OpenRank::keep(std::shared_ptr<void> user) {
  const std::lock_guard locked(mutex_);
  users_.push_back(std::move(user));
}

void OpenRank::drop(const std::shared_ptr<void>& user) {
  const std::lock_guard locked(mutex_);
  std::erase(users_, user);
}

} // namespace rondo::compat::python
