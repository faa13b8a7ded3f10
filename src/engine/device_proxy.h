// The thread that runs the relays of a communicator.
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

/// The thread polls continuously, because replays of captured graphs send messages without
/// notifying the host. When nothing has moved for a while, it sleeps between polls, for growing
/// times. Only this thread uses the ports. The functions of the class may be called by one thread
/// at a time.
class DeviceProxy {
 public:
  /// `size`: of every ring.
  DeviceProxy(std::shared_ptr<device::Device> device, const device::RingSize& size);
  ~DeviceProxy();
  DeviceProxy(const DeviceProxy&) = delete;
  DeviceProxy& operator=(const DeviceProxy&) = delete;

  /// Takes over the opening of `end` and sets End::relayed. Does not wait for the peer. The first
  /// call starts the thread. Throws Error(system).
  void serve(End& end);

  /// Notifies the thread that a launch was started.
  void wake();

  /// Throws the error of this end's port, after a kernel has found the end mark. If this port has
  /// no error (a replay of another plan found the mark), throws the error of another port.
  [[noreturn]] void throwEnded(const End* end) const;
  /// The error of a stranded relay, or null.
  std::exception_ptr stranded() const;

  /// Waits until the ports have taken all published messages; returns early when `failed` is set.
  /// False: a relay is stranded, or the deadline has passed.
  bool drain(const base::Deadline& deadline, const std::atomic<std::uint32_t>& failed) const;

  /// Ends the thread, which takes one poll of each port. No messages move after this.
  void stop();

 private:
  void start();
  void main();
  void takeAdded();
  bool stepAll();

  const std::shared_ptr<device::Device> device_;
  const device::RingSize size_;
  const pid_t process_; ///< the process that made the proxy: a forked child has none
  std::map<const End*, std::unique_ptr<DeviceRelay>> relays_;

  std::mutex mutex_;
  /// A relay, and the worker of its transport or null.
  struct Served {
    DeviceRelay* relay;
    transport::Worker* worker;
  };
  /// Added by serve() under the mutex, taken by the thread.
  std::vector<Served> added_;
  std::vector<DeviceRelay*> served_;        ///< used by the thread only
  std::vector<transport::Worker*> workers_; ///< used by the thread only; without duplicates
  std::atomic<const DeviceRelay*> stranded_{nullptr};
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint32_t> news_{0}; ///< counts wake(); the thread sleeps on it
  std::thread thread_;
};

} // namespace rondo::engine
