// Preloaded into ranks, moves their wall clock: CLOCK_REALTIME, gettimeofday() and time().
//
// CLOCK_STEPS names a file with the seconds by which that clock is wrong, 8 bytes. A test changes
// them while the ranks run, and all ranks see the step at once, as if the machine's clock was set.
// The kernel still compares with the true clock, so a wait until a time of the wall clock ends at
// once or lasts for an hour.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

std::int64_t wrongBy() {
  using Seconds = std::atomic<std::int64_t>;
  static_assert(Seconds::is_always_lock_free && sizeof(Seconds) == sizeof(std::int64_t));
  static const Seconds* const seconds = []() -> const Seconds* {
    const char* path = std::getenv("CLOCK_STEPS");
    const int fd = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return nullptr;
    void* const at = ::mmap(nullptr, sizeof(Seconds), PROT_READ, MAP_SHARED, fd, 0);
    ::close(fd);
    return at == MAP_FAILED ? nullptr : static_cast<const Seconds*>(at);
  }();
  return seconds == nullptr ? 0 : seconds->load(std::memory_order_relaxed);
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#define REAL(name) static auto* const real_##name = real<decltype(::name)>(#name)

} // namespace

#pragma GCC visibility push(default)
extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  REAL(clock_gettime);
  const int result = real_clock_gettime(clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI)
    now->tv_sec += wrongBy();
  return result;
}

int gettimeofday(timeval* now, void* zone) noexcept {
  REAL(gettimeofday);
  const int result = real_gettimeofday(now, zone);
  now->tv_sec += wrongBy();
  return result;
}

time_t time(time_t* now) noexcept {
  REAL(time);
  const time_t result = real_time(nullptr) + wrongBy();
  if (now != nullptr) *now = result;
  return result;
}
}
#pragma GCC visibility pop
