// The Block of the plan kernel on the GPU, see kernel.cuh. The memory orders and scopes are those
// of the PTX memory model; PROOFS.md proves that they are sufficient.
#pragma once

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
  __device__ void ending() const {}

  // These are what cuda::atomic_ref makes. Its header takes longer to compile than a kernel.

  template <Scope kScope, class T>
  static __device__ T acquire(const T* word) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    T value;
    if constexpr (kScope == Scope::device && sizeof(T) == 4)
      asm volatile("ld.acquire.gpu.b32 %0,[%1];" : "=r"(value) : "l"(word) : "memory");
    else if constexpr (kScope == Scope::device)
      asm volatile("ld.acquire.gpu.b64 %0,[%1];" : "=l"(value) : "l"(word) : "memory");
    else if constexpr (sizeof(T) == 4)
      asm volatile("ld.acquire.sys.b32 %0,[%1];" : "=r"(value) : "l"(word) : "memory");
    else asm volatile("ld.acquire.sys.b64 %0,[%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  template <Scope kScope, class T>
  static __device__ void release(T* word, T value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    if constexpr (kScope == Scope::device && sizeof(T) == 4)
      asm volatile("st.release.gpu.b32 [%0],%1;" : : "l"(word), "r"(value) : "memory");
    else if constexpr (kScope == Scope::device)
      asm volatile("st.release.gpu.b64 [%0],%1;" : : "l"(word), "l"(value) : "memory");
    else if constexpr (sizeof(T) == 4)
      asm volatile("st.release.sys.b32 [%0],%1;" : : "l"(word), "r"(value) : "memory");
    else asm volatile("st.release.sys.b64 [%0],%1;" : : "l"(word), "l"(value) : "memory");
  }
  static __device__ bool claim(std::uint32_t* word) {
    std::uint32_t before;
    asm volatile("fence.sc.gpu;" : : : "memory");
    asm volatile("atom.cas.acquire.gpu.b32 %0,[%1],%2,%3;"
                 : "=r"(before)
                 : "l"(word), "r"(0u), "r"(1u)
                 : "memory");
    return before == 0;
  }

  template <class T>
  static __device__ T add(T* word, T value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    T before;
    if constexpr (sizeof(T) == 4)
      asm volatile("atom.add.relaxed.gpu.u32 %0,[%1],%2;"
                   : "=r"(before)
                   : "l"(word), "r"(value)
                   : "memory");
    else
      asm volatile("atom.add.relaxed.gpu.u64 %0,[%1],%2;"
                   : "=l"(before)
                   : "l"(word), "l"(value)
                   : "memory");
    return before;
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
  LiveOperand* const ends_;
};

} // namespace rondo::kernels::cuda
