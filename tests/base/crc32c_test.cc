// Tests CRC32C: known values, and that the instruction, the tables and pieces give the same.
#include "base/crc32c.h"

#include <cstring>
#include <random>
#include <vector>

#include "support/test.h"

using namespace rondo::base;

// The values of RFC 3720, appendix B.4, and the check value of the CRC catalogue.
TEST_CASE("crc32c: known values") {
  std::vector<std::byte> bytes(32, std::byte{0});
  const auto both = [&](std::uint32_t expected) {
    CHECK(crc32c(0, bytes.data(), bytes.size()) == expected);
    CHECK(crc32cByTable(0, bytes.data(), bytes.size()) == expected);
  };
  both(0x8a9136aa);
  bytes.assign(32, std::byte{0xff});
  both(0x62a8ab43);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  both(0x46dd794e);
  CHECK(crc32c(0, "123456789", 9) == 0xe3069283);
  CHECK(crc32c(0, nullptr, 0) == 0);
}

TEST_CASE("crc32c: the instruction, the tables and sums of pieces agree") {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(100'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const std::size_t sizes[] = {1,     7,     8,     9,     63,     255,   256,   767,  768,
                               769,   1023,  1024,  1025,  1279,   1280,  800,   4095, 12287,
                               12288, 12289, 13056, 24576, 30'001, 65536, 99'990};
  for (const std::size_t size : sizes)
    for (const std::size_t offset : {0, 1, 5, 8}) {
      const std::byte* data = bytes.data() + offset;
      const std::uint32_t whole = crc32cByTable(0, data, size);
      CHECK(crc32c(0, data, size) == whole);
      const std::size_t cut = random() % (size + 1);
      CHECK(crc32c(crc32c(0, data, cut), data + cut, size - cut) == whole);
    }
}

TEST_CASE("crc32c: every flip of a bit changes it") {
  std::vector<std::byte> bytes(300, std::byte{0x5a});
  const std::uint32_t right = crc32c(0, bytes.data(), bytes.size());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    CHECK(crc32c(0, bytes.data(), bytes.size()) != right);
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}
