// Tests the hash with which ranks compare their parameters.
#include <set>

#include "rondo/detail/hash.h"
#include "support/test.h"

namespace rondo::test {

TEST_CASE("a hash depends on every single bit and on the length") {
  std::vector<unsigned char> bytes(75, 0);
  std::set<std::uint64_t> hashes;
  for (std::size_t length = 0; length <= bytes.size(); ++length)
    hashes.insert(detail::hashBytes(bytes.data(), length));
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
    hashes.insert(detail::hashBytes(bytes.data(), bytes.size()));
    bytes[bit / 8] = 0;
  }
  REQUIRE(hashes.size() == bytes.size() + 1 + bytes.size() * 8);
}

} // namespace rondo::test
