// The state that the fake's functions share. State::mutex protects all of it, except for state of a
// single thread.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda/fake/fake.h"
#include "support/host_switch.h"

namespace rondo::test::fake {

/// A piece of work in a queue.
struct Item {
  std::vector<std::shared_ptr<Item>> after; ///< the items that it waits for
  std::function<void()> run;
  bool apart = false; ///< runs on its own thread; otherwise at once, under the lock
  bool done = false;
};
using ItemPtr = std::shared_ptr<Item>;

/// Work that is recorded instead of run.
struct Node {
  std::vector<std::size_t> after;
  std::function<void()> run;
};
struct Capture {
  unsigned long long id = 0;
  cudaStreamCaptureMode mode{};
  std::thread::id begun_by;
  CUstream_st* origin = nullptr;
  std::vector<Node> nodes;
  bool invalid = false;
};

/// The memory at an address.
struct Region {
  enum class Kind { pool, plain, host, registered, mapped } kind = Kind::plain;
  std::size_t bytes = 0;
  int device = -1;
  std::shared_ptr<std::set<int>> access; ///< devices that may use it; null: all
};

/// State of one thread.
struct ThreadState {
  int device = 0;
  std::vector<CUctx_st*> contexts; ///< the driver's stack
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  cudaError_t last = cudaSuccess;
};
ThreadState& self();

} // namespace rondo::test::fake

struct CUctx_st {
  int device = 0;
  int retained = 0;
};
struct CUgreenCtx_st {
  unsigned multiprocessors = 0;
};
struct CUstream_st {
  int device = 0;
  unsigned flags = 0;
  std::size_t queue = 0;
  std::unique_ptr<CUgreenCtx_st> green;
  rondo::test::fake::ItemPtr last;
  std::shared_ptr<rondo::test::fake::Capture> capture;
  std::vector<std::size_t> tail; ///< of the capture: the next node runs after these
};
struct CUevent_st {
  int device = 0;
  rondo::test::fake::ItemPtr item;
  std::shared_ptr<rondo::test::fake::Capture> capture;
  std::vector<std::size_t> nodes;
};
struct CUmemPoolHandle_st {
  int device = 0;
  std::shared_ptr<std::set<int>> access;
};
struct CUgraph_st {
  std::vector<rondo::test::fake::Node> nodes;
};
struct CUgraphExec_st {
  std::vector<rondo::test::fake::Node> nodes;
};

namespace rondo::test {

struct FakeCuda::State {
  explicit State(const Settings& of);
  ~State();
  static State& get(); ///< the current one; aborts if there is none

  const Settings settings;
  mutable std::mutex mutex;
  std::condition_variable changed;

  // State of the callers.
  std::set<int> contexts;
  std::vector<std::string> complaints;
  std::map<std::string, int> calls;
  std::size_t copied = 0;
  void complain(const std::string& what) { complaints.push_back(what); }

  // Objects that the callers made.
  struct Device {
    CUctx_st primary;
    CUstream_st legacy;
    int free_slots = 0;
    std::size_t streams = 0; ///< made so far
    std::vector<std::deque<fake::ItemPtr>> queues;
  };
  std::deque<Device> devices;
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::set<CUmemPoolHandle_st*> pools;
  std::vector<std::weak_ptr<fake::Capture>> captures;
  unsigned long long next_capture = 1;
  std::map<unsigned long long, int> allocations; ///< handles of shared memory, and their files
  /// All multicast objects ever made, by the numbers of their files. They have handles and regions
  /// like other shared memory.
  struct Multicast {
    std::size_t devices = 0, bytes = 0;
    std::set<int> added;
    std::vector<unsigned long> bound; ///< bound memory, by the numbers of its files
    /// The mappings of the bound memory, through which the fake's switch accesses it. There is one
    /// address for each place, because otherwise the thread sanitizer would not know what barriers
    /// order. Never unmapped.
    std::shared_ptr<std::vector<std::byte*>> windows = std::make_shared<std::vector<std::byte*>>();
  };
  std::map<unsigned long, Multicast> multicasts;
  /// by the address of their mapping
  std::map<const std::byte*, std::unique_ptr<HostSwitch>> switches;
  /// The object of a handle; null if it is other memory.
  Multicast* multicastOf(unsigned long long handle);
  bool isWindow(const std::byte* at) const;
  unsigned long long next_allocation = 1;
  std::map<const std::byte*, fake::Region> regions;

  /// The region that contains the address, or null.
  const fake::Region* regionOf(const void* at);
  /// Memory that a kernel uses while it runs, with its device.
  struct Running {
    int device = 0;
    std::vector<const void*> memory;
  };
  std::list<Running> running;
  int unfinished = 0; ///< items in all queues, and running items

  /// The device that the calling thread uses. The runtime creates the device's context in the first
  /// call that needs one, also in calls that free.
  int current();
  CUstream_st* streamOf(cudaStream_t handle);
  /// Refuses a call that would break a capture in progress. `name` is part of the complaint.
  bool unsafe(const char* name);
  /// During a capture of the stream, refuses all questions about it except whether it is captured,
  /// in every capture mode.
  bool hidden(const CUstream_st& stream, const char* name);
  /// Waits for the device's kernels if the driver is pessimistic.
  void waitForKernels(std::unique_lock<std::mutex>& lock, int device, const char* name);
  /// Adds work to the stream. `apart`: it runs on its own thread; otherwise at once, under the
  /// lock. It also waits for `before`.
  cudaError_t put(CUstream_st& stream, std::function<void()> run, bool apart,
                  fake::ItemPtr before = nullptr);

 private:
  void advance();
  void start(const fake::ItemPtr& item);
  void finish(fake::Item& item);
  std::list<std::thread> apart_;
};

} // namespace rondo::test
