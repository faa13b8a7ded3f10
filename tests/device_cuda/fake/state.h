// What the fake's functions share. All of it is under State::mutex, but for what is a thread's own.
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

#include "device_cuda/fake/fake.h"
#include "support/host_switch.h"

namespace rondo::test::fake {

/// A piece of work in a queue.
struct Item {
  std::vector<std::shared_ptr<Item>> after; ///< what it waits for
  std::function<void()> run;
  bool apart = false; ///< on a thread of its own; else under the lock, at once
  bool done = false;
};
using ItemPtr = std::shared_ptr<Item>;

/// Work that is recorded in place of being run.
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

/// What lies at an address.
struct Region {
  enum class Kind { pool, plain, host, registered, mapped } kind = Kind::plain;
  std::size_t bytes = 0;
  int device = -1;
  std::shared_ptr<std::set<int>> access; ///< devices that may use it; null: all
};

/// The thread's own.
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
  std::vector<std::size_t> tail; ///< of the capture: what comes next runs after these
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
  static State& get(); ///< the one that is; ends the program where there is none

  const Settings settings;
  mutable std::mutex mutex;
  std::condition_variable changed;

  // What is known of the callers.
  std::set<int> contexts;
  std::vector<std::string> complaints;
  std::map<std::string, int> calls;
  std::size_t copied = 0;
  void complain(const std::string& what) { complaints.push_back(what); }

  // What they made.
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
  /// Multicast objects that were ever made, by their files' numbers; they have handles and regions
  /// as other shared memory.
  struct Multicast {
    std::size_t devices = 0, bytes = 0;
    std::set<int> added;
    std::vector<unsigned long> bound; ///< memory, by its files' numbers
    /// Where what was bound is mapped, and where the fake's switch reaches it: one address for each
    /// place, or the thread sanitizer would not know what meetings order. Mapped for good.
    std::shared_ptr<std::vector<std::byte*>> windows = std::make_shared<std::vector<std::byte*>>();
  };
  std::map<unsigned long, Multicast> multicasts;
  std::map<const std::byte*, std::unique_ptr<HostSwitch>> switches; ///< by where they are mapped
  /// Of a handle; null where it is other memory's.
  Multicast* multicastOf(unsigned long long handle);
  bool isWindow(const std::byte* at) const;
  unsigned long long next_allocation = 1;
  std::map<const std::byte*, fake::Region> regions;

  /// The region with the address, or null.
  const fake::Region* regionOf(const void* at);
  /// Memory that a kernel uses while it runs, on which device.
  struct Running {
    int device = 0;
    std::vector<const void*> memory;
  };
  std::list<Running> running;
  int unfinished = 0; ///< items in all queues, and those that run

  /// The device that the calling thread uses. The runtime makes its context at whatever call needs
  /// one, also those that free.
  int current();
  CUstream_st* streamOf(cudaStream_t handle);
  /// Refuses what would break a capture that is going on; `name` goes into the complaint.
  bool unsafe(const char* name);
  /// Waits for the device's kernels, where the driver is pessimistic.
  void waitForKernels(std::unique_lock<std::mutex>& lock, int device, const char* name);
  /// Work for the stream. `apart`: on a thread of its own; else it is done under the lock. It also
  /// waits for `before`.
  cudaError_t put(CUstream_st& stream, std::function<void()> run, bool apart,
                  fake::ItemPtr before = nullptr);

 private:
  void advance();
  void start(const fake::ItemPtr& item);
  void finish(fake::Item& item);
  std::list<std::thread> apart_;
};

} // namespace rondo::test
