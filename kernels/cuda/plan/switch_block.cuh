// The Block of the plan kernel on GPUs that a switch connects, see switch.cuh. Only for sm_90 and
// later, which have these instructions.
#pragma once

#include <cstdint>

#include "kernels/cuda/plan/device_block.cuh"

namespace rondo::kernels::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Sum, minimum or maximum over all windows, computed by the switch. Each is one instruction, whose
// name must be a literal in the asm text.

inline __device__ Vector switchAddFloat32(const std::byte* at) {
  Vector v;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return v;
}
inline __device__ Vector switchAddFloat16(const std::byte* at) {
  Vector v;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return v;
}
inline __device__ Vector switchAddBFloat16(const std::byte* at) {
  Vector v;
  asm volatile(
      "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
      : "l"(__cvta_generic_to_global(at))
      : "memory");
  return v;
}
inline __device__ std::uint64_t switchAddFloat64(const std::byte* at) {
  std::uint64_t sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f64 %0, [%1];"
               : "=l"(sum)
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return sum;
}
inline __device__ std::uint32_t switchAdd32(const std::byte* at) {
  std::uint32_t sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];"
               : "=r"(sum)
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return sum;
}
inline __device__ std::uint64_t switchAdd64(const std::byte* at) {
  std::uint64_t sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u64 %0, [%1];"
               : "=l"(sum)
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return sum;
}
inline __device__ std::uint32_t switchMinInt32(const std::byte* at) {
  std::uint32_t sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.min.s32 %0, [%1];"
               : "=r"(sum)
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return sum;
}
inline __device__ std::uint32_t switchMaxInt32(const std::byte* at) {
  std::uint32_t sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.max.s32 %0, [%1];"
               : "=r"(sum)
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return sum;
}
inline __device__ std::uint32_t switchMinUint32(const std::byte* at) {
  std::uint32_t sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.min.u32 %0, [%1];"
               : "=r"(sum)
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return sum;
}
inline __device__ std::uint32_t switchMaxUint32(const std::byte* at) {
  std::uint32_t sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.max.u32 %0, [%1];"
               : "=r"(sum)
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return sum;
}
inline __device__ std::uint64_t switchMinInt64(const std::byte* at) {
  std::uint64_t sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.min.s64 %0, [%1];"
               : "=l"(sum)
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return sum;
}
inline __device__ std::uint64_t switchMaxInt64(const std::byte* at) {
  std::uint64_t sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.max.s64 %0, [%1];"
               : "=l"(sum)
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return sum;
}
inline __device__ std::uint64_t switchMinUint64(const std::byte* at) {
  std::uint64_t sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.min.u64 %0, [%1];"
               : "=l"(sum)
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return sum;
}
inline __device__ std::uint64_t switchMaxUint64(const std::byte* at) {
  std::uint64_t sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.max.u64 %0, [%1];"
               : "=l"(sum)
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return sum;
}

class SwitchBlock : public DeviceBlock {
 public:
  explicit __device__ SwitchBlock(LiveOperand* ends) : DeviceBlock(ends) {}

  template <DataType kType, ReduceOp::Kind kOp>
  static __device__ Vector sum(const std::byte* at) {
    if constexpr (kType == DataType::float32) return switchAddFloat32(at);
    else if constexpr (kType == DataType::float16) return switchAddFloat16(at);
    else if constexpr (kType == DataType::bfloat16) return switchAddBFloat16(at);
    else if constexpr (sizeOf(kType) == sizeof(std::uint64_t)) return wide<kType, kOp>(at);
    else return narrow<kType, kOp>(at);
  }

  static __device__ void storeToAll(std::byte* at, const Vector& v) {
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(__cvta_generic_to_global(at)), "r"(v.words[0]), "r"(v.words[1]),
                   "r"(v.words[2]), "r"(v.words[3])
                 : "memory");
  }
  static __device__ void storeToAll(std::uint64_t* at, std::uint64_t value) {
    asm volatile("multimem.st.relaxed.sys.global.b64 [%0], %1;"
                 :
                 : "l"(__cvta_generic_to_global(at)), "l"(value)
                 : "memory");
  }
  static __device__ void releaseToAll(std::uint64_t* at, std::uint64_t value) {
    asm volatile("multimem.st.release.sys.global.b64 [%0], %1;"
                 :
                 : "l"(__cvta_generic_to_global(at)), "l"(value)
                 : "memory");
  }
  static __device__ void fenceAliases() { asm volatile("fence.proxy.alias;" : : : "memory"); }

 private:
  /// Signed and unsigned sums have the same bits.
  template <DataType kType, ReduceOp::Kind kOp>
  static __device__ Vector narrow(const std::byte* at) {
    using enum ReduceOp::Kind;
    constexpr bool kSigned = kType == DataType::int32;
    Vector sums;
    RONDO_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::byte* const word = at + i * sizeof(std::uint32_t);
      if constexpr (kOp == min)
        sums.words[i] = kSigned ? switchMinInt32(word) : switchMinUint32(word);
      else if constexpr (kOp == max)
        sums.words[i] = kSigned ? switchMaxInt32(word) : switchMaxUint32(word);
      else sums.words[i] = switchAdd32(word);
    }
    return sums;
  }
  template <DataType kType, ReduceOp::Kind kOp>
  static __device__ Vector wide(const std::byte* at) {
    using enum ReduceOp::Kind;
    constexpr bool kSigned = kType == DataType::int64;
    Vector sums;
    RONDO_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::byte* const word = at + i * sizeof(std::uint64_t);
      std::uint64_t sum;
      if constexpr (kType == DataType::float64) sum = switchAddFloat64(word);
      else if constexpr (kOp == min) sum = kSigned ? switchMinInt64(word) : switchMinUint64(word);
      else if constexpr (kOp == max) sum = kSigned ? switchMaxInt64(word) : switchMaxUint64(word);
      else sum = switchAdd64(word);
      sums.words[2 * i] = static_cast<std::uint32_t>(sum);
      sums.words[2 * i + 1] = static_cast<std::uint32_t>(sum >> 32);
    }
    return sums;
  }
};

#endif

} // namespace rondo::kernels::cuda
