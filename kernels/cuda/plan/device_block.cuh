// The Block of the plan kernel on the GPU, see kernel.cuh. The memory orders and scopes are those
// of the PTX memory model; PROOFS.md proves that they are sufficient.
#pragma once

#include <cuda/atomic>

#include <cstdint>

#include "kernels/cuda/plan/kernel.cuh"
#include "kernels/cuda/tuning.h"

namespace rondo::kernels::cuda {

class DeviceBlock {
 public:
  static constexpr std::uint32_t kLooks = kPlanLooks;

  explicit __device__ DeviceBlock(LiveOperand* ends) : ends_(ends) {}

  __device__ std::uint32_t thread() const { return threadIdx.x; }
  __device__ std::uint32_t threads() const { return kPlanThreads; }
  __device__ Workers<kPlanThreads> workers() const { return {threadIdx.x, 0, 1}; }
  __device__ LiveOperand* ends() const { return ends_; }
  __device__ bool all(bool yes) const { return __syncthreads_and(yes) != 0; }

  template <Scope kScope, class T>
  static __device__ T acquire(const T* word) {
    return Atomic<kScope, T>(*const_cast<T*>(word)).load(::cuda::memory_order_acquire);
  }
  template <Scope kScope, class T>
  static __device__ void release(T* word, T value) {
    Atomic<kScope, T>(*word).store(value, ::cuda::memory_order_release);
  }
  static __device__ bool claim(std::uint32_t* word) {
    std::uint32_t zero = 0;
    return Atomic<Scope::device, std::uint32_t>(*word).compare_exchange_strong(zero, 1);
  }

  template <class T>
  static __device__ T add(T* word, T value) {
    return Atomic<Scope::device, T>(*word).fetch_add(value, ::cuda::memory_order_relaxed);
  }

  /// Each is one instruction. The memory model guarantees that each packet is accessed by a single
  /// access.
  static __device__ Packets loadPackets(const Packets* from) {
    Packets packets;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(packets.first), "=l"(packets.second)
                 : "l"(__cvta_generic_to_global(from))
                 : "memory");
    return packets;
  }
  static __device__ void storePackets(Packets* to, Packets packets) {
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
                 :
                 : "l"(__cvta_generic_to_global(to)), "l"(packets.first), "l"(packets.second)
                 : "memory");
  }

  static __device__ std::uint64_t nanoseconds() {
    std::uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
  }
  /// Polls without a pause: the block stays resident, so no other work could use the processor.
  static __device__ void pause(std::uint32_t) {}

 private:
  template <Scope kScope, class T>
  using Atomic = ::cuda::atomic_ref<T, kScope == Scope::device ? ::cuda::thread_scope_device
                                                               : ::cuda::thread_scope_system>;
  LiveOperand* const ends_;
};

} // namespace rondo::kernels::cuda
