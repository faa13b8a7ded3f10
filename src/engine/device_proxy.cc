// The proxy thread: polls the relays, sleeps when they are idle, and ends.
#include "engine/device_proxy.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "base/futex.h"
#include "base/inherited_thread.h"
#include "base/no_signals.h"
#include "engine/device_tuning.h"
#include "rondo/error.h"

namespace rondo::engine {

namespace {
/// Time between two polls for messages that have not been sent yet.
constexpr std::chrono::microseconds kDrainLook{50};
} // namespace

DeviceProxy::DeviceProxy(std::shared_ptr<device::Device> device, const device::RingSize& size)
    : device_(std::move(device)), size_(size), process_(::getpid()) {}

DeviceProxy::~DeviceProxy() { stop(); }

void DeviceProxy::serve(End& end) {
  if (end.relayed) return;
  if (!thread_.joinable()) start();
  const std::size_t inbox_bytes = size_.inboxBytes();
  const device::Memory memory =
      device_->allocateHost(inbox_bytes + device::RingSize::creditBytes());
  const transport::DeviceMemory ring{memory, device::Memory(memory, memory.get() + inbox_bytes),
                                     inbox_bytes};
  auto relay = std::make_unique<DeviceRelay>(DeviceRelay::Settings{end.id, end.sends, size_, ring},
                                             std::move(end.pending));
  {
    const std::lock_guard lock(mutex_);
    added_.push_back({relay.get(), end.worker});
  }
  relays_[&end] = std::move(relay);
  end.relayed = ring;
}

void DeviceProxy::start() {
  const base::NoSignals quiet;
  try {
    thread_ = std::thread([this] { main(); });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::system, std::string("cannot make a proxy thread: ") + error.what());
  }
}

void DeviceProxy::wake() {
  if (!thread_.joinable()) return;
  news_.fetch_add(1, std::memory_order_release);
  base::futexWake(news_);
}

void DeviceProxy::throwEnded(const End* end) const {
  if (const auto found = relays_.find(end); found != relays_.end())
    if (const auto error = found->second->error()) std::rethrow_exception(error);
  for (const auto& [other, relay] : relays_)
    if (const auto error = relay->error()) std::rethrow_exception(error);
  throw Error(ErrorCode::system, "a network channel ended without a reason");
}

std::exception_ptr DeviceProxy::stranded() const {
  const DeviceRelay* relay = stranded_.load(std::memory_order_acquire);
  return relay ? relay->error() : nullptr;
}

bool DeviceProxy::drain(const base::Deadline& deadline,
                        const std::atomic<std::uint32_t>& failed) const {
  if (::getpid() != process_) return true;
  const auto drained = [](const auto& entry) { return entry.second->drained(); };
  while (!std::all_of(relays_.begin(), relays_.end(), drained)) {
    if (failed.load(std::memory_order_acquire) != 0) return true;
    if (stranded() || deadline.passed()) return false;
    std::this_thread::sleep_for(kDrainLook);
  }
  return true;
}

void DeviceProxy::stop() {
  if (!thread_.joinable()) return;
  if (::getpid() != process_) return base::forget(thread_);
  stopping_.store(true, std::memory_order_release);
  wake();
  thread_.join();
}

void DeviceProxy::takeAdded() {
  const std::lock_guard lock(mutex_);
  for (const Served& added : added_) {
    served_.push_back(added.relay);
    if (added.worker && std::find(workers_.begin(), workers_.end(), added.worker) == workers_.end())
      workers_.push_back(added.worker);
  }
  added_.clear();
}

bool DeviceProxy::stepAll() {
  takeAdded();
  bool moved = false;
  for (transport::Worker* worker : workers_) moved |= worker->progress();
  for (DeviceRelay* relay : served_) {
    moved |= relay->step();
    if (relay->stranded()) stranded_.store(relay, std::memory_order_release);
  }
  return moved;
}

void DeviceProxy::main() {
  base::Clock::time_point moved_at{};
  for (std::uint32_t seen = 0; !stopping_.load(std::memory_order_acquire);) {
    const std::uint32_t news = news_.load(std::memory_order_acquire);
    const bool moved = stepAll();
    const auto now = base::Clock::now();
    if (moved || news != seen) moved_at = now;
    seen = news;
    if (now - moved_at < kProxySpin) {
      if (!moved) ::sched_yield();
    } else {
      const base::Clock::duration nap = (now - moved_at) / kProxyNapPart;
      base::futexWait(news_, news, std::min<base::Clock::duration>(nap, kProxyLongestNap));
    }
  }
}

} // namespace rondo::engine
