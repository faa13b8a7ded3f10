// Output of the programs of these tests.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <string>

namespace rondo::test {

/// Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
inline long long now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

/// One write per line, so that lines of several ranks do not mix.
inline void say(const std::string& line) {
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::_Exit(9);
}

} // namespace rondo::test
