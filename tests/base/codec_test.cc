// Proves: what is written is read back, in little-endian order; and no truncated text and no wrong
// length makes the reader allocate, or read past the end.
#include "base/codec.h"

#include <limits>

#include "support/test.h"

namespace rondo::test {
namespace {

using namespace base;

Writer example() {
  Writer writer;
  writer.u8(0xab);
  writer.u16(0x1234);
  writer.u32(0xdeadbeef);
  writer.u64(0x0123456789abcdef);
  writer.i32(-2);
  writer.i64(std::numeric_limits<std::int64_t>::min());
  writer.text("hello");
  writer.blob({});
  const std::byte raw[] = {std::byte{1}, std::byte{2}};
  writer.raw(raw);
  return writer;
}

/// Whether the example's fields are there, and nothing after them.
bool readExample(Reader& reader) {
  bool right = reader.u8() == 0xab;
  right &= reader.u16() == 0x1234;
  right &= reader.u32() == 0xdeadbeef;
  right &= reader.u64() == 0x0123456789abcdef;
  right &= reader.i32() == -2;
  right &= reader.i64() == std::numeric_limits<std::int64_t>::min();
  right &= reader.text(5) == "hello";
  right &= reader.blob(0).empty();
  std::byte raw[2] = {};
  reader.raw(std::span<std::byte>(raw));
  right &= raw[0] == std::byte{1} && raw[1] == std::byte{2};
  reader.finish();
  return right;
}

template <class Call>
bool refused(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == ErrorCode::transport &&
           std::string(error.what()).find("a thing") != std::string::npos;
  }
  return false;
}

} // namespace

TEST_CASE("fields come back as they were written") {
  const Writer writer = example();
  Reader reader(writer.bytes(), "a thing");
  CHECK(readExample(reader));
}

TEST_CASE("the order of bytes is little-endian") {
  Writer writer;
  writer.u32(0x04030201);
  writer.u16(0x0605);
  for (std::size_t i = 0; i < 6; ++i) CHECK(writer.bytes()[i] == static_cast<std::byte>(i + 1));
}

TEST_CASE("every proper prefix is refused, and so is one byte more") {
  const std::vector<std::byte> whole = example().take();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    const std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<long>(size));
    Reader reader(part, "a thing");
    CHECK(refused([&] { readExample(reader); }));
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  Reader reader(longer, "a thing");
  CHECK(refused([&] { readExample(reader); }));
}

TEST_CASE("a length above the limit, or beyond the end, is refused before anything is read") {
  for (std::uint32_t length : {0u, 1u, 4u, 5u, 6u, 100u, 0x7fffffffu, 0xffffffffu}) {
    for (std::size_t limit : {std::size_t{0}, std::size_t{4}, std::size_t{5},
                              std::numeric_limits<std::size_t>::max()}) {
      CAPTURE(length, limit);
      Writer writer;
      writer.u32(length);
      for (int i = 0; i < 5; ++i) writer.u8(7);
      Reader reader(writer.bytes(), "a thing");
      if (length <= limit && length <= 5) {
        CHECK(reader.blob(limit).size() == length);
        CHECK(reader.left() == 5 - length);
      } else {
        CHECK(refused([&] { reader.blob(limit); }));
      }
    }
  }
}

} // namespace rondo::test
