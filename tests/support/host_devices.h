// Devices without a GPU: ordinary memory, streams that are threads, launches whose blocks are
// threads.
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

/// Work that runs in order, on a thread of its own. Any thread may call its functions.
class HostStream {
 public:
  using Work = std::function<void()>;
  using Graph = std::vector<Work>;

  HostStream();
  ~HostStream(); ///< runs what is left
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  Stream handle() { return Stream(this); }
  void push(Work work);
  /// Returns when all that was pushed has run.
  void synchronize();

  /// Between the two, work is taken note of and not run.
  void beginCapture();
  Graph endCapture();
  std::uint64_t capture(); ///< one for each stream, 0: none
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

/// While it lives, Options::device means one of these. Threads of ranks may use them at the same
/// time; the knobs are for before.
class HostDevices {
 public:
  struct Settings {
    int devices = 1;
    int first = 0;              ///< of the machine's devices, of which the others are not seen
    int blocks = 64;            ///< that each holds at once
    std::uint32_t threads = 1;  ///< of a block
    bool see_each_other = true; ///< else each reaches only itself
    bool lose_writes = false;   ///< store() to another device's memory does nothing
    bool shared_memory = true;  ///< other processes can map it
    bool multicasts = false;    ///< a switch reaches them all
    /// That of this number, from 0 on, is missing where the switch stores; -1: none.
    int out_of_switch = -1;
  };
  explicit HostDevices(const Settings& settings);
  HostDevices() : HostDevices(Settings{}) {}
  ~HostDevices();

  /// The next launch on any device fails.
  void failNextLaunch();
  /// No device sees this address.
  void hide(const void* memory);
  /// Launches so far.
  std::uint64_t launches() const;
  /// Allocations that somebody still holds.
  std::int64_t allocations() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

} // namespace rondo::test
