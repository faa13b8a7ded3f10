// Selects the instruction sets for which the CPU kernels are compiled. Include this before any
// Highway header.
#pragma once

#ifdef HWY_DISABLED_TARGETS
#error "include kernels/cpu/targets.h before Highway"
#endif

// Kept: the compiler's baseline (the kernels run on every machine), SSE4 (for x86 without AVX2,
// where the baseline may be scalar code), AVX2, AVX3 (AVX-512 as of Skylake), NEON.
// Left out, because each costs a compilation of every kernel: SSSE3, because such machines are no
// longer in use; the sets above AVX3 (the lower bits), because no reduction can use what they add
// (bit manipulation, dot products, a bfloat16 conversion that flushes denormals), so they would
// give the same code as AVX3; SVE, because it has never been tested.
#define HWY_DISABLED_TARGETS \
  ((HWY_AVX3 - 1) | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

// The build with the thread sanitizer does not test the kernels themselves; the baseline is enough
// for their callers.
#ifdef __SANITIZE_THREAD__
#define HWY_COMPILE_ONLY_STATIC
#endif
