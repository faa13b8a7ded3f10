// Proves that copyPastCaches() copies every byte, for every size and alignment, and writes no other
// byte.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/reduce.h"
#include "support/test.h"

namespace rondo::test {

TEST_CASE("a copy past the caches moves every byte and no other", "[copy]") {
  const auto copy = GENERATE(&kernels::copyPastCaches, &kernels::copyPastCachesBySse);
  constexpr std::size_t kMargin = 64, kLongest = 2100;
  constexpr std::byte kGuard{0xa5};
  std::vector<std::byte> from(kLongest + 2 * kMargin), to(kLongest + 2 * kMargin + 64);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 0; bytes <= 1100; ++bytes) sizes.push_back(bytes);
  sizes.push_back(kLongest);
  for (const std::size_t bytes : sizes)
    for (const std::size_t source : {0, 1, 17, 63})
      for (const std::size_t target : {0, 1, 2, 31, 63}) {
        std::memset(to.data(), static_cast<int>(kGuard), to.size());
        std::byte* const begin = to.data() + kMargin + target;
        copy(begin, from.data() + source, bytes);
        INFO(bytes << " bytes from " << source << " to " << target);
        REQUIRE((bytes == 0 || std::memcmp(begin, from.data() + source, bytes) == 0));
        std::memset(begin, static_cast<int>(kGuard), bytes);
        REQUIRE(std::all_of(to.begin(), to.end(), [](std::byte b) { return b == kGuard; }));
      }
  copy(nullptr, nullptr, 0);
}

} // namespace rondo::test
