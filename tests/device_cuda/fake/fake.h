// A CUDA runtime and driver without a GPU, under src/device/cuda and the host's side of the plan
// kernels as they are: device memory is ordinary memory, streams run in hardware queues that are
// threads, kernels' blocks are threads that take the slots of multiprocessors. It holds its callers
// to CUDA's rules, and writes down who breaks one.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace rondo::test {

/// While it lives, the runtime's functions mean this machine. One at a time; it outlives all that
/// was made of it, and waits at its end for what still runs.
class FakeCuda {
 public:
  struct Settings {
    int devices = 2;
    int multiprocessors = 16; ///< each holds one block of a plan kernel, which is never preempted
    int queues = 8;           ///< hardware queues of a device, which streams are dealt out to
    bool peers = true;        ///< devices see each other's memory, where they were given access
    /// What a kernel that probes stores in another device's memory is lost, though copies get
    /// there.
    bool lose_peer_stores = false;
    /// Pinned allocation, registration, a kernel's first use and what frees memory at once wait
    /// until no kernel runs on the device, as a driver may.
    bool pessimistic = false;
    bool multicasts = false; ///< a switch connects the devices
    /// What a kernel that probes stores by the switch is lost.
    bool lose_switch_stores = false;
    /// So long; then that is a complaint.
    std::chrono::milliseconds patience{500};
  };
  explicit FakeCuda(const Settings& settings);
  FakeCuda() : FakeCuda(Settings{}) {}
  ~FakeCuda();

  /// Devices that have a primary context.
  std::set<int> contexts() const;
  /// What was done against the rules, in words; empty where nothing was.
  std::vector<std::string> complaints() const;
  /// Streams, events, pools, memory, mappings and contexts that somebody still holds, by kind.
  /// Pinned host memory is not among them, which the library keeps for good. Waits until all that
  /// was put on streams has run.
  std::map<std::string, int> held() const;
  /// Calls of a function since the start or clearCalls().
  int calls(const std::string& function) const;
  /// Of all functions.
  std::map<std::string, int> calls() const;
  void clearCalls();
  /// Bytes in all calls that copied.
  std::size_t copied() const;

  /// A stream of a green context with so many multiprocessors, on the current device.
  void* makeGreenStream(unsigned multiprocessors);

  struct State;

 private:
  const std::unique_ptr<State> state_;
};

} // namespace rondo::test
