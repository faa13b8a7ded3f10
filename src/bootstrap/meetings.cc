// The process's table of jobs.
#include "bootstrap/meetings.h"

#include <utility>
#include <vector>

#include "base/fork.h"
#include "net/event_loop.h"
#include "rondo/error.h"

namespace rondo::bootstrap {

Meetings& Meetings::ofProcess() {
  static Meetings meetings;
  return meetings;
}

// What the loop keeps in statics of its own must outlive this table.
Meetings::Meetings() { net::EventLoop::get(); }

Meetings::~Meetings() {
  // Members say good-bye before the hubs of this process say farewell.
  entries_.clear();
  std::map<std::uint64_t, std::shared_ptr<Hub>> hubs; // destroyed after the lock is gone
  const base::NoFork whole;
  std::lock_guard lock(mutex_);
  hubs.swap(hubs_);
}

net::SocketAddress Meetings::host(const Hub::Settings& settings) {
  {
    const base::NoFork whole;
    std::lock_guard lock(mutex_);
    if (const auto found = hubs_.find(settings.job); found != hubs_.end())
      return found->second->address();
  }
  const auto hub = std::make_shared<Hub>(settings, [this, job = settings.job] { dismiss(job); });
  const base::NoFork whole;
  std::lock_guard lock(mutex_);
  hubs_[settings.job] = hub;
  return hub->address();
}

bool Meetings::hosts(std::uint64_t job) const {
  const base::NoFork whole;
  std::lock_guard lock(mutex_);
  return hubs_.contains(job);
}

void Meetings::dismiss(std::uint64_t job) {
  std::shared_ptr<Hub> over; // destroyed after the lock is gone
  const base::NoFork whole;
  std::lock_guard lock(mutex_);
  if (const auto found = hubs_.find(job); found != hubs_.end()) {
    over = std::move(found->second);
    hubs_.erase(found);
  }
}

void Meetings::ended(std::uint64_t job, int rank) {
  std::shared_ptr<Hub> hub;
  {
    const base::NoFork whole;
    std::lock_guard lock(mutex_);
    if (const auto found = hubs_.find(job); found != hubs_.end()) hub = found->second;
  }
  if (hub) hub->ended(rank);
}

std::unique_ptr<Session> Meetings::open(const Membership::Settings& settings, bool keep,
                                        std::chrono::milliseconds limit) {
  const std::pair key(settings.job, settings.rank);
  std::shared_ptr<Membership> membership;
  {
    const base::NoFork whole;
    std::lock_guard lock(mutex_);
    std::erase_if(entries_, [](const auto& item) {
      return !item.second.opening && !item.second.kept && item.second.membership.expired();
    });
    Entry& entry = entries_[key];
    if (entry.opening)
      throw Error(ErrorCode::invalid_argument,
                  "rank " + std::to_string(settings.rank) +
                      " of this job is being opened twice at the same time in this process",
                  settings.rank);
    entry.opening = true;
    membership = entry.membership.lock();
  }
  struct Opening {
    Meetings& meetings;
    const std::pair<std::uint64_t, int>& key;
    ~Opening() {
      const base::NoFork whole;
      std::lock_guard lock(meetings.mutex_);
      meetings.entries_[key].opening = false;
    }
  } opening{*this, key};
  if (!membership) {
    membership = Membership::join(settings);
    const base::NoFork whole;
    std::lock_guard lock(mutex_);
    Entry& entry = entries_[key];
    entry.membership = membership;
    if (keep) entry.kept = membership;
  }
  return membership->open(limit);
}

UniqueId Meetings::onceExchanged(const std::function<UniqueId()>& make) {
  std::lock_guard lock(exchange_mutex_);
  if (!exchanged_) exchanged_ = make();
  return *exchanged_;
}

} // namespace rondo::bootstrap
