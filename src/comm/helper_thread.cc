// Decides when the helper thread polls, naps and sleeps.
#include "comm/helper_thread.h"

#include <unistd.h>

#include <optional>
#include <system_error>
#include <utility>

#include "base/futex.h"
#include "base/inherited_thread.h"
#include "base/log.h"
#include "base/no_signals.h"
#include "base/processors.h"
#include "comm/progress_loop.h"

namespace rondo::comm {

namespace {
/// The nap between two looks for the next call, used while calls follow each other within this
/// time; otherwise the thread sleeps until it is woken. Both cost the program up to 30 us; looks
/// that find nothing cost extra. (A DDP step of PyTorch's MLP, 2 ranks on 2 cores: 2.5 ms with
/// looks for 5 ms after each call, 1.9 ms with naps, 1.6 ms without communication. A step of `rondo
/// train`: 0.90 and 0.78 ms.)
constexpr std::chrono::microseconds kNap{200};
constexpr std::chrono::seconds kSleep{1};

/// Measures the times in which the helper has nothing to do.
class Lull {
 public:
  /// Whether the present lull is long, or the one before was.
  bool lasts() {
    const auto now = base::Clock::now();
    if (since_ == kNever) since_ = now;
    return last_ > kNap || now - since_ > kNap;
  }
  void end() {
    if (since_ != kNever) last_ = base::Clock::now() - since_;
    since_ = kNever;
  }

 private:
  static constexpr base::Clock::time_point kNever{};
  base::Clock::time_point since_ = kNever;
  base::Clock::duration last_{};
};
} // namespace

HelperThread::HelperThread(ProgressLoop& progress_loop, int rank)
    : progress_loop_(progress_loop), rank_(rank), process_(::getpid()) {}

HelperThread::~HelperThread() {
  if (!thread_.joinable()) return;
  if (::getpid() != process_) {
    base::forget(thread_);
    return;
  }
  stopping_ = true;
  wake();
  thread_.join();
}

void HelperThread::need() {
  needed_.store(true);
  if (thread_.joinable()) return wake();
  const base::NoSignals quiet;
  try {
    thread_ = std::thread([this] { main(); });
  } catch (const std::system_error& error) {
    base::log(LogLevel::warn, "no helper thread (", error.what(),
              "): asynchronous calls progress only while the program waits");
  }
}

void HelperThread::resume() {
  // Sequentially consistent with the helper's check of the flags before it sleeps.
  waiting_.fetch_sub(1);
  if (needed_.load()) wake();
}

void HelperThread::wake() {
  // Sequentially consistent with the helper, which sets asleep_ and then checks the flags.
  if (!asleep_.load()) return;
  word_.fetch_add(1);
  base::futexWake(word_);
}

void HelperThread::main() {
  const base::LogRank in_log(rank_);
  const bool aside = base::ownProcessors().size() == 1;
  Backoff backoff = aside ? Backoff::aside() : Backoff(progress_loop_.oversubscribed_);
  std::optional<base::Clock::time_point> inspected; // since the last nap
  Lull lull;
  while (!stopping_.load()) {
    if (!needed_.load() || waiting_.load() > 0) {
      nap(lull.lasts());
      backoff.reset();
      inspected.reset();
      continue;
    }
    lull.end();
    bool moved = false;
    {
      const ProgressLoop::Lock lock(progress_loop_);
      moved = progress_loop_.poll();
      if (progress_loop_.engine_.idle()) needed_.store(false);
    }
    progress_loop_.yieldMutex();
    if (!needed_.load()) continue;
    if (moved && !aside) {
      backoff.reset();
    } else if (!backoff.spinning()) {
      backoff.rest(progress_loop_.failure_.word());
      const auto now = base::Clock::now();
      if (inspected && now - *inspected < Patience::kInspect) continue;
      progress_loop_.inspect(now, inspected);
      inspected = now;
    }
  }
}

void HelperThread::nap(bool deep) {
  const std::uint32_t word = word_.load();
  if (deep) asleep_.store(true);
  const bool wanted = stopping_.load() || (needed_.load() && waiting_.load() == 0);
  if (!wanted) base::futexWait(word_, word, deep ? std::chrono::microseconds(kSleep) : kNap);
  if (deep) asleep_.store(false);
}

} // namespace rondo::comm
