// A CUDA runtime and driver without a GPU, under the unchanged src/device/cuda and the host's side
// of the plan kernels. Device memory is ordinary memory, streams run in hardware queues that are
// threads, and a kernel's blocks are threads that occupy multiprocessors. It checks that callers
// keep CUDA's rules, and records every violation.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace rondo::test {

/// While it exists, the runtime's functions refer to this machine. Only one may exist at a time. It
/// must outlive all its objects, and waits in its destructor for work that still runs.
class FakeCuda {
 public:
  struct Settings {
    int devices = 2;
    int multiprocessors = 16; ///< each runs one block of a plan kernel, which is never preempted
    int queues = 8;           ///< hardware queues of a device, to which streams are assigned
    bool peers = true;        ///< devices can access each other's memory, where access was enabled
    /// Stores of the test kernel to another device's memory are lost, while copies arrive.
    bool lose_peer_stores = false;
    /// Pinned allocation, registration, a kernel's first use, and calls that free memory at once
    /// wait until no kernel runs on the device, as a driver may.
    bool pessimistic = false;
    int architecture = 90;   ///< for which kernels were compiled
    int driver = 13000;      ///< CUDA version of the driver
    bool multicasts = false; ///< a switch connects the devices
    /// Stores of the test kernel through the switch are lost.
    bool lose_switch_stores = false;
    /// Longest such wait; a longer one is a complaint.
    std::chrono::milliseconds patience{500};
  };
  explicit FakeCuda(const Settings& settings);
  FakeCuda() : FakeCuda(Settings{}) {}
  ~FakeCuda();

  /// Devices that have a primary context.
  std::set<int> contexts() const;
  /// The violations of CUDA's rules, in words; empty if there are none.
  std::vector<std::string> complaints() const;
  /// Streams, events, pools, memory, mappings and contexts that are still held, by kind. Without
  /// pinned host memory, which the library never frees. Waits until all work on streams has run.
  std::map<std::string, int> held() const;
  /// Calls of a function since the start or clearCalls().
  int calls(const std::string& function) const;
  /// Of all functions.
  std::map<std::string, int> calls() const;
  void clearCalls();
  /// Bytes in all calls that copied.
  std::size_t copied() const;

  /// A stream of a green context with this many multiprocessors, on the current device.
  void* makeGreenStream(unsigned multiprocessors);

  struct State;

 private:
  const std::unique_ptr<State> state_;
};

} // namespace rondo::test
