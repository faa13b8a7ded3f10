// Which instruction sets the kernels are compiled for. Include it before anything of Highway.
#pragma once

#ifdef HWY_DISABLED_TARGETS
#error "include kernels/cpu/targets.h before Highway"
#endif

// Kept: the compiler's baseline (the kernels run on every machine), SSE4 (x86 without AVX2, where
// the baseline may be scalar code), AVX2, AVX3 (AVX-512 as of Skylake), NEON.
// Left out, because each costs a compilation of every kernel: SSSE3, whose machines are gone; the
// sets above AVX3 (the lower bits), whose additions (bit manipulation, dot products, a bfloat16
// conversion that flushes denormals) no reduction can use, so that they would give AVX3's code
// again; SVE, because nobody has run it.
#define HWY_DISABLED_TARGETS \
  ((HWY_AVX3 - 1) | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

// The thread sanitizer's build tests no kernel by itself: the baseline serves who calls them.
#ifdef __SANITIZE_THREAD__
#define HWY_COMPILE_ONLY_STATIC
#endif
