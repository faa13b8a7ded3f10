// Keeps results of calls, and leaves a group although futures and reducers live on.
#include "compat/python/open_rank.h"

#include <algorithm>

namespace rondo::compat::python {

namespace {
/// Closing a communicator ends all of its calls, so this is longer than any of them needs.
constexpr std::chrono::seconds kEndsWithin{10};
} // namespace

Work Flight::work() {
  const std::lock_guard locked(mutex_);
  return work_;
}

bool Flight::waitFor(std::chrono::nanoseconds limit) {
  Work waited = work();
  std::optional<Error> failure;
  try {
    if (!waited.waitFor(limit)) return false;
  } catch (const Error& error) {
    failure = error;
  }
  const std::lock_guard locked(mutex_);
  work_ = {};
  if (failure && !error_) error_ = failure;
  // A copy would share its text with the threads that other copies are thrown on.
  if (error_) throw Error(error_->code(), error_->what(), error_->culprit());
  return true;
}

OpenRank::~OpenRank() {
  if (inherited()) {
    static_cast<void>(new auto(std::move(users_))); // they would wait for what they inherited
    return;
  }
  users_.clear();
  comm_.reset();
  for (const std::weak_ptr<Flight>& one : flights_) {
    const std::shared_ptr<Flight> flight = one.lock();
    try {
      if (flight) flight->waitFor(kEndsWithin);
    } catch (const Error&) { // its future raises it
    }
  }
}

void OpenRank::keep(std::shared_ptr<void> user) {
  const std::lock_guard locked(mutex_);
  users_.push_back(std::move(user));
}

void OpenRank::drop(const std::shared_ptr<void>& user) {
  const std::lock_guard locked(mutex_);
  std::erase(users_, user);
}

void OpenRank::follow(const std::shared_ptr<Flight>& flight) {
  const std::lock_guard locked(mutex_);
  if (flights_.size() >= flights_limit_) {
    std::erase_if(flights_, [](const std::weak_ptr<Flight>& one) { return one.expired(); });
    flights_limit_ = 2 * flights_.size() + 64;
  }
  flights_.push_back(flight);
}

} // namespace rondo::compat::python
