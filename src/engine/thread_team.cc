// Starts the thread team's threads, binds them to processors, and makes them wait.
#include "engine/thread_team.h"

#include <sched.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "base/futex.h"
#include "base/inherited_thread.h"
#include "base/no_signals.h"
#include "base/processors.h"
#include "rondo/error.h"

namespace rondo::engine {

namespace {

/// Polls before the first yield, and yields before sleeping: about 5 us and 1 ms.
constexpr int kSpins = 200, kYields = 4000;
constexpr std::chrono::seconds kSleep{1};

/// The processors of the NUMA node on which this thread runs; empty if they cannot be found out.
base::Processors processorsOfNode() {
  const int here = ::sched_getcpu();
  for (base::NumaNode& node : base::numaNodes())
    if (base::contains(node.processors, {here})) return std::move(node.processors);
  return {};
}

/// The processors for a team of `size` threads: the processors of this thread's node that the
/// thread may use, or the whole node if they are too few (the rank is pinned). Empty: any
/// processor.
base::Processors processorsFor(int size) {
  base::Processors node = processorsOfNode();
  base::Processors both = base::both(base::ownProcessors(), node);
  return both.size() >= static_cast<std::size_t>(size) ? both : node;
}

} // namespace

ThreadTeam::ThreadTeam(int size) : process_(::getpid()) {
  const base::Processors processors = processorsFor(size);
  const base::NoSignals quiet;
  try {
    for (int part = 1; part < size; ++part)
      others_.emplace_back([this, part, processors] {
        if (!processors.empty()) base::bindThread(processors);
        work(static_cast<std::size_t>(part));
      });
  } catch (const std::system_error& error) {
    stop();
    throw Error(ErrorCode::system,
                "cannot make " + std::to_string(size - 1) + " threads: " + error.what());
  }
}

ThreadTeam::~ThreadTeam() { stop(); }

void ThreadTeam::stop() {
  if (::getpid() != process_) {
    for (std::thread& one : others_) base::forget(one);
    return;
  }
  start(nullptr, nullptr);
  for (std::thread& one : others_) one.join();
}

void ThreadTeam::start(Function function, void* job) {
  function_ = function;
  job_ = job;
  left_.store(others_.size(), std::memory_order_relaxed);
  // Sequentially consistent, because a worker increments asleep_ and then reads round_.
  round_.fetch_add(1);
  if (asleep_.load() > 0) base::futexWake(round_);
}

void ThreadTeam::finish() {
  for (int looks = 0; left_.load(std::memory_order_acquire) > 0; ++looks)
    if (looks > kSpins) sched_yield();
}

void ThreadTeam::work(std::size_t part) {
  for (std::uint32_t seen = 0;; ++seen) {
    for (int looks = 0; round_.load(std::memory_order_acquire) == seen; ++looks) {
      if (looks < kSpins) continue;
      if (looks < kSpins + kYields) {
        sched_yield();
        continue;
      }
      asleep_.fetch_add(1);
      if (round_.load() == seen) base::futexWait(round_, seen, kSleep);
      asleep_.fetch_sub(1);
    }
    if (!function_) return;
    function_(job_, part);
    left_.fetch_sub(1, std::memory_order_release);
  }
}

} // namespace rondo::engine
