// Tests CRC32C: known values, and that all implementations give what the definition gives.
#include "base/crc32c.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "support/test.h"

namespace rondo::test {

using namespace base;

// The values of RFC 3720, appendix B.4, and the check value of the CRC catalogue.
TEST_CASE("crc32c: known values") {
  std::vector<std::byte> bytes(32, std::byte{0});
  const auto all = [&](std::uint32_t expected) {
    CHECK(crc32c(0, bytes.data(), bytes.size()) == expected);
    CHECK(crc32cByInstruction(0, bytes.data(), bytes.size()) == expected);
    CHECK(crc32cByTable(0, bytes.data(), bytes.size()) == expected);
  };
  all(0x8a9136aa);
  bytes.assign(32, std::byte{0xff});
  all(0x62a8ab43);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  all(0x46dd794e);
  CHECK(crc32c(0, "123456789", 9) == 0xe3069283);
  CHECK(crc32c(0, nullptr, 0) == 0);
}

namespace {

/// The definition: a division of polynomials, bit by bit.
std::uint32_t byDefinition(std::uint32_t before, std::byte byte) {
  std::uint32_t sum = ~before ^ static_cast<std::uint32_t>(byte);
  for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ ((sum & 1) != 0 ? 0x82f63b78 : 0);
  return ~sum;
}

std::vector<std::byte> randomBytes(std::size_t size) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Checks all implementations with these bytes, whose CRC32C is `expected`. Returns the first fault
/// that it finds, or "".
std::string wrong(const std::byte* data, std::size_t size, std::uint32_t expected,
                  std::size_t offset) {
  if (crc32c(0, data, size) != expected) return "crc32c";
  if (crc32cByInstruction(0, data, size) != expected) return "by the instruction";
  if (crc32cByTable(0, data, size) != expected) return "by tables";
  const std::size_t cut = size * 5 / 7;
  if (crc32c(crc32c(0, data, cut), data + cut, size - cut) != expected) return "of two pieces";
  constexpr std::byte kGuard{0xa5};
  for (const bool past_caches : {false, true}) {
    std::vector<std::byte> copy(size + offset + 2, kGuard);
    std::byte* const to = copy.data() + offset + 1;
    if (crc32cOfCopy(0, to, data, size, past_caches) != expected) return "of a copy";
    if (size > 0 && std::memcmp(to, data, size) != 0) return "the copy";
    if (to[-1] != kGuard || to[size] != kGuard) return "outside the copy";
  }
  return {};
}

} // namespace

// Lengths below 1300 bytes cover the code for short data: less than a register, registers, groups
// of eight registers, and what remains after each. The next test covers the code for long data.
TEST_CASE("crc32c: all implementations give what the definition gives") {
  constexpr std::size_t kLengths = 1300;
  const std::vector<std::byte> bytes = randomBytes(kLengths + 64);
  for (std::size_t offset = 0; offset < 64; ++offset) {
    std::uint32_t expected = 0;
    for (std::size_t size = 0; size < kLengths; ++size) {
      const std::string text =
          wrong(bytes.data() + offset, size, expected, (offset * 29 + size) % 64);
      if (!text.empty()) FAIL(text << ": " << size << " bytes at " << offset);
      expected = byDefinition(expected, bytes[offset + size]);
    }
  }
}

TEST_CASE("crc32c: all implementations agree on long data") {
  const std::vector<std::byte> bytes = randomBytes((std::size_t{1} << 20) + 100);
  std::vector<std::uint32_t> expected{0};
  for (const std::byte byte : bytes) expected.push_back(byDefinition(expected.back(), byte));
  for (const std::size_t size :
       {1535,  1536,  1537,  3071,  3072,   4095,  4096,   8191,    12287,   12288,         12289,
        13056, 16383, 16385, 24576, 30'001, 65536, 99'990, 131'072, 1 << 20, (1 << 20) + 99}) {
    INFO(size);
    CHECK(wrong(bytes.data(), size, expected[size], 0) == "");
    CHECK(wrong(bytes.data(), size, expected[size], 63) == "");
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

} // namespace rondo::test
