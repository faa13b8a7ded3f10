// Tests copies between buffers of any alignment.
#include "base/copy.h"

#include <algorithm>
#include <vector>

#include "support/test.h"

namespace rondo::test {
namespace {

constexpr std::size_t kPage = 4096, kMost = 3 * kPage;

std::byte valueAt(std::size_t at) { return static_cast<std::byte>(at * 7 % 251 + 1); }

} // namespace

// Proves: all bytes arrive and no other byte changes, for places within a page for which memcpy()
// is used, and for those for which it is not.
TEST_CASE("copyBytes() copies all bytes and no others, at any place within a page") {
  std::vector<std::byte> from(2 * kPage + kMost);
  for (std::size_t at = 0; at < from.size(); ++at) from[at] = valueAt(at);
  for (const std::size_t source : {0, 1, 40, 64, 4095})
    for (const std::size_t ahead : {0, 1, 7, 16, 31, 32, 2048, 4095})
      for (const std::size_t bytes : {0, 1, 63, 2048, 2049, 2111, 2112, 4096, 9001}) {
        const std::size_t target = (source + ahead) % kPage;
        std::vector<std::byte> to(2 * kPage + kMost);
        // The two vectors' own places in a page do not matter: both begin at the same one.
        const auto begin = [](std::vector<std::byte>& of) {
          const auto address = reinterpret_cast<std::uintptr_t>(of.data());
          return of.data() + (kPage - address % kPage) % kPage;
        };
        std::byte *const in = begin(from) + source, *const out = begin(to) + target;
        base::copyBytes(out, in, bytes);
        INFO(bytes << " bytes from " << source << " to " << target);
        CHECK(std::equal(out, out + bytes, in));
        const auto untouched = [](std::byte one) { return one == std::byte{0}; };
        CHECK(std::all_of(to.data(), out, untouched));
        CHECK(std::all_of(out + bytes, to.data() + to.size(), untouched));
      }
}

TEST_CASE("copyByVectors() copies all bytes and no others") {
  std::vector<std::byte> from(300);
  for (std::size_t at = 0; at < from.size(); ++at) from[at] = valueAt(at);
  for (std::size_t bytes = 0; bytes < 200; ++bytes) {
    std::vector<std::byte> to(300);
    base::copyByVectors(to.data() + 5, from.data() + 3, bytes);
    std::vector<std::byte> due(300);
    std::copy_n(from.begin() + 3, bytes, due.begin() + 5);
    CHECK(to == due);
  }
}

} // namespace rondo::test
