// The plan kernel's Block on the host: one thread, or several with a barrier, like those of a GPU.
// Plain accesses on the GPU are plain accesses here, so the thread sanitizer finds each one that no
// flag or barrier orders.
#pragma once

#include <sched.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <vector>

#include "kernels/cuda/plan/batch.cuh"
#include "kernels/cuda/plan/kernel.cuh"
#include "kernels/cuda/plan/select.h"
#include "kernels/cuda/plan/staged.cuh"

namespace rondo::test {

/// State that the threads of a block share.
struct BlockMemory {
  BlockMemory(std::uint32_t block_threads, std::uint32_t places)
      : threads(block_threads), ends(places), barrier(block_threads) {}

  const std::uint32_t threads;
  std::vector<kernels::cuda::LiveOperand> ends;
  device::Launch launch; ///< of the job in progress, in a batch
  kernels::cuda::StagedLaunch<> staged;
  kernels::cuda::StagedLaunch<64, 1> tight; ///< has room for hardly any tables
  std::barrier<> barrier;
  std::atomic<bool> no{false}; ///< a thread passed false: the launch ends
};

class HostBlock {
 public:
  static constexpr std::uint32_t kLooks = 16;

  HostBlock(BlockMemory& memory, std::uint32_t thread) : memory_(memory), thread_(thread) {}

  std::uint32_t thread() const { return thread_; }
  std::uint32_t threads() const { return memory_.threads; }
  kernels::cuda::Workers<1> workers() const { return {0, thread_, threads()}; }
  kernels::cuda::LiveOperand* ends() { return memory_.ends.data(); }

  bool all(bool yes) {
    if (memory_.threads == 1) return yes;
    if (!yes) memory_.no.store(true, std::memory_order_relaxed);
    memory_.barrier.arrive_and_wait();
    const bool result = !memory_.no.load(std::memory_order_relaxed);
    memory_.barrier.arrive_and_wait(); // no thread has passed false to the next call yet
    return result;
  }

  template <kernels::cuda::Scope, class T>
  static T acquire(const T* word) {
    return std::atomic_ref<T>(*const_cast<T*>(word)).load(std::memory_order_acquire);
  }
  template <kernels::cuda::Scope, class T>
  static void release(T* word, T value) {
    std::atomic_ref<T>(*word).store(value, std::memory_order_release);
  }
  static bool claim(std::uint32_t* word) {
    std::uint32_t zero = 0;
    return std::atomic_ref<std::uint32_t>(*word).compare_exchange_strong(zero, 1);
  }

  template <class T>
  static T add(T* word, T value) {
    return std::atomic_ref<T>(*word).fetch_add(value, std::memory_order_relaxed);
  }

  static device::Packets loadPackets(const device::Packets* from) {
    auto& packets = *const_cast<device::Packets*>(from);
    return {std::atomic_ref<std::uint64_t>(packets.first).load(std::memory_order_relaxed),
            std::atomic_ref<std::uint64_t>(packets.second).load(std::memory_order_relaxed)};
  }
  static void storePackets(device::Packets* to, device::Packets packets) {
    std::atomic_ref<std::uint64_t>(to->first).store(packets.first, std::memory_order_relaxed);
    std::atomic_ref<std::uint64_t>(to->second).store(packets.second, std::memory_order_relaxed);
  }

  static void ending() {}
  static std::uint64_t nanoseconds() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  static void pause(std::uint32_t) { sched_yield(); }

 private:
  BlockMemory& memory_;
  const std::uint32_t thread_;
};

/// Runs one thread of one lane: the tests call this instead of launching a kernel.
using LaneFunction = void (*)(const device::Launch& launch, std::uint32_t lane, BlockMemory& memory,
                              std::uint32_t thread);
LaneFunction laneFunction(const device::ProgramHeader& program);

/// The same for a batch.
inline void runBatch(const device::Batch& batch, std::uint32_t block, BlockMemory& memory,
                     std::uint32_t thread) {
  HostBlock on(memory, thread);
  kernels::cuda::runBatch(batch, block, memory.launch, on);
}

/// The instances of one family, or null. Each is in its own file, so that they compile in parallel.
LaneFunction integerLane(DataType type, ReduceOp::Kind op);
LaneFunction floatLane(DataType type, ReduceOp::Kind op);
LaneFunction switchLane(DataType type, ReduceOp::Kind op); ///< of programs that meet

template <DataType kType>
LaneFunction laneOf(ReduceOp::Kind op) {
  return kernels::cuda::selectOperator<kType>(op, [](auto constant) {
    return +[](const device::Launch& launch, std::uint32_t lane, BlockMemory& memory,
               std::uint32_t thread) {
      HostBlock block(memory, thread);
      const bool tight = lane % 2 == 1; // tests cover both
      const device::Launch& staged = tight ? memory.tight.stage(launch, lane, block)
                                           : memory.staged.stage(launch, lane, block);
      kernels::cuda::PlanKernel<HostBlock, kType, decltype(constant)::value>(staged, lane, block)
          .run();
    };
  });
}

} // namespace rondo::test
