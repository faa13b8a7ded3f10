// Emulated devices: ordinary memory, streams that are threads, launches whose blocks are threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "device/device.h"
#include "rondo/stream.h"

namespace rondo::test {

/// Work that runs in order, on its own thread. Any thread may call its functions.
class HostStream {
 public:
  using Work = std::function<void()>;
  using Graph = std::vector<Work>;

  HostStream();
  ~HostStream(); ///< runs the remaining work
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  Stream handle() { return Stream(this); }
  void push(Work work);
  /// Returns when all pushed work has run.
  void synchronize();

  /// Between these two calls, work is recorded instead of run.
  void beginCapture();
  Graph endCapture();
  std::uint64_t capture(); ///< identifies the capture; 0: none
  void replay(const Graph& graph);

 private:
  void main();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;
  std::optional<Graph> captured_;
  bool busy_ = false, stopping_ = false;
  std::thread thread_;
};

/// As long as it exists, Options::device refers to one of these devices. Threads of ranks may use
/// them at the same time, but may not change the settings.
class HostDevices {
 public:
  struct Settings {
    int devices = 1;
    /// Number, in the machine, of the first device that this process sees.
    int first = 0;
    int blocks = 64;            ///< that each can run at once
    std::uint32_t threads = 1;  ///< of a block
    bool see_each_other = true; ///< otherwise each can access only its own memory
    bool lose_writes = false;   ///< store() to another device's memory has no effect
    bool shared_memory = true;  ///< other processes can map their memory
    bool multicasts = false;    ///< a switch connects them all
    /// The device with this number, from 0 on, does not receive stores through the switch; -1:
    /// none.
    int out_of_switch = -1;
  };
  explicit HostDevices(const Settings& settings);
  HostDevices() : HostDevices(Settings{}) {}
  ~HostDevices();

  /// Makes the next launch on any device fail.
  void failNextLaunch();
  /// Makes this address inaccessible to all devices.
  void hide(const void* memory);
  /// Number of launches so far.
  std::uint64_t launches() const;
  /// Number of allocations that are still held.
  std::int64_t allocations() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

} // namespace rondo::test
