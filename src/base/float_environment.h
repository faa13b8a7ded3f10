// Sets the floating-point environment in which all ranks compute.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace rondo::base {

/// While an object lives, its thread computes by the defaults of IEEE 754: it rounds to nearest
/// even, keeps subnormal numbers, and traps nothing. The destructor restores the program's
/// environment. So ranks get the same bits even if their programs have different environments (code
/// built with -ffast-math flushes subnormal numbers to zero). If the program uses the defaults
/// already, the cost is one read of the processor's control register, and exception flags that are
/// raised meanwhile stay set.
class FloatEnvironment {
 public:
#if defined(__SSE2__)
  FloatEnvironment() : before_(_mm_getcsr()) {
    if (changed()) _mm_setcsr(kDefault);
  }
  ~FloatEnvironment() {
    if (changed()) _mm_setcsr(before_);
  }

 private:
  static constexpr unsigned kRaised = 0x3f;    ///< the exception flags
  static constexpr unsigned kDefault = 0x1f80; ///< all exceptions are masked, nothing else is set
  bool changed() const { return (before_ & ~kRaised) != kDefault; }
  const unsigned before_;
#elif defined(__aarch64__)
  FloatEnvironment() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    if (before_ != 0) asm volatile("msr fpcr, %0" : : "r"(0UL) : "memory");
  }
  ~FloatEnvironment() {
    if (before_ != 0) asm volatile("msr fpcr, %0" : : "r"(before_) : "memory");
  }

 private:
  unsigned long before_;
#else
  FloatEnvironment() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatEnvironment() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
#endif

 public:
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;
};

} // namespace rondo::base
