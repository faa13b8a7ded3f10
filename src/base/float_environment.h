// The floating-point environment in which all ranks compute.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace rondo::base {

/// While it lives, this thread computes as IEEE 754 says by default: it rounds to nearest even,
/// keeps subnormal numbers, and traps nothing. What the program had set is in force again after it.
/// Ranks whose programs set different things (code built with -ffast-math flushes subnormal numbers
/// to zero) still get the same bits. Where the program has set nothing, it costs a look at the
/// processor's control register; exceptions that are raised then stay noted for the program.
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
  static constexpr unsigned kRaised = 0x3f;    ///< exceptions so far
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
