// The process's table of jobs.
#include "bootstrap/process_jobs.h"

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fork.h"
#include "bootstrap/link.h"
#include "net/event_loop.h"
#include "rondo/error.h"

namespace rondo::bootstrap {

namespace {

std::atomic<bool> process_ends{false};
/// Between two looks whether openings have ended.
constexpr std::chrono::milliseconds kLook{10};
/// Between two tries to join while the hub may be that of a start that has failed.
constexpr std::chrono::milliseconds kTryAgain{100};

[[noreturn]] void refuseAtExit() { throw Error(ErrorCode::system, "the process is ending"); }

/// Destroys them at the same time, because each may wait for an answer. `here`: in the process that
/// made them; elsewhere none waits.
template <class T>
void endTogether(std::vector<std::shared_ptr<T>> all, bool here) {
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; here && i < all.size(); ++i) {
    try {
      threads.emplace_back([&one = all[i]] { one.reset(); });
    } catch (const std::system_error&) { // no more threads: one after the other
      all[i].reset();
    }
  }
  if (!all.empty()) all.front().reset();
}

} // namespace

ProcessJobs& ProcessJobs::ofProcess() {
  static ProcessJobs& jobs = *new ProcessJobs;
  static const struct AtExit {
    ~AtExit() { jobs.end(); }
  } at_exit;
  return jobs;
}

// The event loop's static objects must outlive end(), so they are created first.
ProcessJobs::ProcessJobs() { net::EventLoop::get(); }

void ProcessJobs::end() {
  {
    const base::NoFork whole;
    const std::lock_guard lock(mutex_);
    process_ends = true;
  }
  if (!maker_.elsewhere()) endOpenings();
  std::vector<std::shared_ptr<Membership>> kept;
  std::vector<std::shared_ptr<Hub>> hubs;
  {
    const base::NoFork whole;
    std::lock_guard lock(mutex_);
    for (auto& [key, entry] : entries_)
      if (entry.kept) kept.push_back(std::move(entry.kept));
    entries_.clear();
    for (auto& [job, hub] : hubs_) hubs.push_back(std::move(hub));
    hubs_.clear();
  }
  // Members send bye before the hubs of this process send farewell.
  endTogether(std::move(kept), !maker_.elsewhere());
  endTogether(std::move(hubs), !maker_.elsewhere());
  if (!maker_.elsewhere()) Link::awaitParted();
}

/// An opening that has not met its hub yet ends by its own deadline. One of this thread cannot end:
/// a signal's handler that interrupted it called exit().
void ProcessJobs::endOpenings() {
  for (;; std::this_thread::sleep_for(kLook)) {
    std::vector<std::shared_ptr<Membership>> met;
    bool any = false;
    {
      const base::NoFork whole;
      const std::lock_guard lock(mutex_);
      for (const auto& [key, entry] : entries_) {
        if (!entry.opening || entry.opens == std::this_thread::get_id()) continue;
        any = true;
        if (auto membership = entry.membership.lock()) met.push_back(std::move(membership));
      }
    }
    if (!any) return;
    for (const auto& membership : met)
      membership->decline({ErrorCode::aborted,
                           "rank " + std::to_string(membership->settings().rank) +
                               " ended its process while the communicator was being created",
                           membership->settings().rank});
  }
}

net::SocketAddress ProcessJobs::host(const Hub::Settings& settings) {
  if (process_ends) refuseAtExit();
  if (const auto hub = find(settings.job)) {
    // Ranks of this process that take over from a dead hub open one hub together.
    const auto& from = settings.succession;
    if (from && !(from->standby && from->standby->address() == hub->address()))
      throw Error(ErrorCode::aborted, "this process already hosts a control plane of the job");
    return hub->address();
  }
  const auto hub = std::make_shared<Hub>(settings, [this, job = settings.job] { dismiss(job); });
  std::shared_ptr<Hub> copy; // destroyed after the lock is released
  const base::NoFork whole;
  std::lock_guard lock(mutex_);
  copy = std::exchange(hubs_[settings.job], hub);
  return hub->address();
}

std::shared_ptr<Hub> ProcessJobs::find(std::uint64_t job) const {
  if (process_ends) return nullptr;
  const base::NoFork whole;
  std::lock_guard lock(mutex_);
  const auto found = hubs_.find(job);
  return found == hubs_.end() || found->second->elsewhere() ? nullptr : found->second;
}

std::optional<net::SocketAddress> ProcessJobs::hubOf(std::uint64_t job) const {
  const auto hub = find(job);
  return hub ? std::optional(hub->address()) : std::nullopt;
}

std::shared_ptr<Standby> ProcessJobs::standby(const Standby::Settings& settings) {
  std::shared_ptr<Standby> made; // waits for the loop thread, so without the lock
  for (;;) {
    {
      const base::NoFork whole;
      const std::lock_guard lock(mutex_);
      std::erase_if(standbys_, [](const auto& item) { return item.second.expired(); });
      auto& known = standbys_[settings.job];
      if (auto standby = known.lock(); standby && !standby->elsewhere()) return standby;
      known = made;
      if (made) return made;
    }
    made = std::make_shared<Standby>(settings, [this, job = settings.job] {
      if (const auto hub = find(job)) hub->mayBeReplaced();
    });
  }
}

void ProcessJobs::serve(std::uint64_t job, const std::shared_ptr<Standby>& standby) {
  if (const auto hub = find(job)) hub->serve(standby);
}

bool ProcessJobs::handOver(std::uint64_t job) {
  const auto hub = find(job);
  return hub && hub->handOver();
}

void ProcessJobs::dismiss(std::uint64_t job) {
  std::shared_ptr<Hub> over; // destroyed after the lock is released
  const base::NoFork whole;
  std::lock_guard lock(mutex_);
  if (const auto found = hubs_.find(job); found != hubs_.end()) {
    over = std::move(found->second);
    hubs_.erase(found);
  }
}

std::optional<int> ProcessJobs::waiting(std::uint64_t job) const {
  const auto hub = find(job);
  return hub ? std::optional(hub->waiting()) : std::nullopt;
}

void ProcessJobs::withdraw(std::uint64_t job) {
  if (const auto hub = find(job); hub && hub->withdraw()) dismiss(job);
}

void ProcessJobs::ended(std::uint64_t job, int rank) {
  if (const auto hub = find(job)) hub->ended(rank);
}

class ProcessJobs::Opening {
 public:
  Opening(ProcessJobs& jobs, const Membership::Settings& settings)
      : jobs_(jobs), settings_(settings), key_(settings.job, settings.rank) {
    const base::NoFork whole;
    std::lock_guard lock(jobs_.mutex_);
    if (process_ends) refuseAtExit();
    std::erase_if(jobs_.entries_, [](const auto& item) {
      return !item.second.opening && !item.second.kept && item.second.membership.expired();
    });
    Entry& entry = jobs_.entries_[key_];
    if (entry.opening)
      throw Error(ErrorCode::invalid_argument,
                  "rank " + std::to_string(settings.rank) +
                      " of this job is being opened twice at the same time in this process",
                  settings.rank);
    entry.opening = true;
    entry.opens = std::this_thread::get_id();
    membership_ = entry.membership.lock();
  }
  ~Opening() {
    membership_.reset(); // it may say bye, and end() waits until that is done
    const base::NoFork whole;
    std::lock_guard lock(jobs_.mutex_);
    jobs_.entries_[key_].opening = false;
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

  /// The rank's existing membership, or a new one. Throws Error(init_failed).
  Membership& membership(bool keep) {
    if (membership_ && membership_->settings().tls != settings_.tls)
      throw Error(ErrorCode::invalid_argument,
                  std::string("this rank joined its job with RONDO_TLS=") +
                      (settings_.tls ? "0" : "1") +
                      "; its later communicators need the same value");
    if (membership_) return *membership_;
    membership_ = Membership::join(settings_);
    const base::NoFork whole;
    std::lock_guard lock(jobs_.mutex_);
    Entry& entry = jobs_.entries_[key_];
    entry.membership = membership_;
    if (keep) entry.kept = membership_;
    return *membership_;
  }

 private:
  ProcessJobs& jobs_;
  const Membership::Settings& settings_;
  const std::pair<std::uint64_t, int> key_;
  std::shared_ptr<Membership> membership_; ///< ends after opening if no other object shares it
};

std::unique_ptr<Session> ProcessJobs::open(const Membership::Settings& settings, bool keep,
                                           std::chrono::milliseconds limit) {
  for (;;) {
    {
      Opening opening(*this, settings);
      Membership& membership = opening.membership(keep);
      try {
        auto session = membership.open(limit);
        if (process_ends) refuseAtExit();
        return session;
      } catch (const Error&) {
        // Rank 0 may not have tried again yet. Then this was the hub of the start that failed.
        const bool old_hub = settings.again && membership.refusedToMeet();
        if (!old_hub || base::Clock::now() >= settings.deadline) throw;
      }
    }
    forgetFailed(settings.job, settings.rank);
    std::this_thread::sleep_for(kTryAgain);
  }
}

bool ProcessJobs::forgetFailed(std::uint64_t job, int rank) {
  if (maker_.elsewhere()) return false;
  const std::pair key(job, rank);
  std::shared_ptr<Hub> hub;                 // ends last, without the lock
  std::shared_ptr<Membership> failed, kept; // end without the lock, because they may say bye
  {
    const base::NoFork whole;
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end() && !found->second.opening) failed = found->second.membership.lock();
  }
  if (!failed || !failed->failedToMeet()) return false;
  {
    const base::NoFork whole;
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.opening) return false;
    // Another thread may have opened the rank anew meanwhile.
    const auto& now = found->second.membership;
    if (now.owner_before(failed) || failed.owner_before(now)) return false;
    kept = std::move(found->second.kept);
    entries_.erase(found);
    if (auto node = rank == 0 ? hubs_.extract(job) : decltype(hubs_)::node_type())
      hub = std::move(node.mapped());
  }
  return true;
}

bool ProcessJobs::member(std::uint64_t job, int rank) const {
  const base::NoFork whole;
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find({job, rank});
  return found != entries_.end() && !found->second.membership.expired();
}

void ProcessJobs::decline(const Membership::Settings& settings, bool keep, const Failure& why) {
  Opening(*this, settings).membership(keep).decline(why);
}

UniqueId ProcessJobs::onceExchanged(const std::function<UniqueId()>& make) {
  std::lock_guard lock(exchange_mutex_);
  if (!exchanged_) exchanged_ = make();
  return *exchanged_;
}

} // namespace rondo::bootstrap
