// The thread that runs a communicator's relays.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "device/device.h"
#include "engine/device_relay.h"
#include "engine/fabric.h"

namespace rondo::engine {

/// It looks all the time, as replays of captured graphs move messages without a word to the host;
/// after a while without any, between naps, which grow. The ports are its own: nobody else touches
/// them. The other functions are for one thread at a time.
class DeviceProxy {
 public:
  /// `size`: of all rings.
  DeviceProxy(std::shared_ptr<device::Device> device, const device::RingSize& size);
  ~DeviceProxy();
  DeviceProxy(const DeviceProxy&) = delete;
  DeviceProxy& operator=(const DeviceProxy&) = delete;

  /// Takes over the end's opening, so does not wait for the peer, and sets End::relayed. The first
  /// one starts the thread. Throws Error(system).
  void serve(End& end);

  /// A launch is on its way.
  void wake();

  /// Throws what this end's port threw, after a kernel found the mark of it; where it threw nothing
  /// (the kernel was a replay's, of another plan) what another's threw.
  [[noreturn]] void throwEnded(const End* end) const;
  /// Of a relay that is stranded; else null.
  std::exception_ptr stranded() const;

  /// Waits until the ports have taken over all that is published; gives up when `failed` is set.
  /// False: one is stranded, or the deadline has passed.
  bool drain(const base::Deadline& deadline, const std::atomic<std::uint32_t>& failed) const;

  /// Returns when the thread has ended, which takes it a look at each port. Nothing moves any more.
  void stop();

 private:
  void start();
  void main();
  void takeAdded();
  bool stepAll();

  const std::shared_ptr<device::Device> device_;
  const device::RingSize size_;
  const pid_t process_; ///< a forked child has no proxy
  std::map<const End*, std::unique_ptr<DeviceRelay>> relays_;

  std::mutex mutex_;
  /// A relay, and the worker of its transport or null.
  struct Served {
    DeviceRelay* relay;
    transport::Worker* worker;
  };
  std::vector<Served> added_;               ///< under the mutex: for the thread to take
  std::vector<DeviceRelay*> served_;        ///< the thread's
  std::vector<transport::Worker*> workers_; ///< the thread's, each once
  std::atomic<const DeviceRelay*> stranded_{nullptr};
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint32_t> news_{0}; ///< counts what it naps no longer for; it sleeps on it
  std::thread thread_;
};

} // namespace rondo::engine
