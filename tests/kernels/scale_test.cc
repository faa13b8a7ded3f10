// Proves that scaling and dividing equal the reference for every type, count and alignment, in
// place and not, on every instruction set, and that integers saturate and truncate as documented.
#include "tests/kernels/kernel_test.h"

namespace rondo::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
/// The last one is a NaN with all bits set, from which a careless rounding would carry.
const double kFactors[] = {1.0,  0.5,    1.0 / 3, -2.75, 0.0,
                           1e30, -1e-30, 1e300,   kNan,  std::bit_cast<double>(~0ull >> 1)};

} // namespace

TEST_CASE("scaling equals the reference, bit for bit") {
  for (DataType type : kDataTypes) {
    const std::size_t size = sizeOf(type), most = 9 * 64 / size + 3;
    const std::vector<std::byte> source = Inputs(type, 3).bytes(most);
    for (double factor : kFactors) {
      std::vector<std::byte> expected(source.size());
      for (std::size_t i = 0; i < most; ++i)
        setElement(expected.data(), i, type,
                   scaleElement(type, element(source.data(), i, type), factor));
      forEachInstructionSet([&](const std::string& set) {
        const kernels::ScaleFunction scale = kernels::scaleFunction(type);
        for (std::size_t count = 0; count <= most; count += count < 128 / size ? 1 : 3)
          for (std::size_t offset : {0, 1})
            for (bool in_place : {false, true}) {
              std::vector<std::byte> in(count * size + 2, std::byte{0x5a}), out = in;
              std::copy_n(source.begin(), count * size, in.begin() + offset);
              auto& result = in_place ? in : out;
              scale(result.data() + offset, in.data() + offset, count, factor);
              INFO(set << ", type " << static_cast<int>(type) << ", count " << count);
              if (firstDifference(type, result.data() + offset, expected.data(), count) != count)
                FAIL("factor " << factor);
              if (result[offset + count * size] != std::byte{0x5a}) FAIL("wrote past the end");
            }
      });
    }
  }
}

TEST_CASE("every 16- and 8-bit integer is scaled right, NaN gives zero") {
  for (DataType type : {DataType::int8, DataType::uint8, DataType::int16, DataType::uint16}) {
    const std::size_t count = std::size_t{1} << (8 * sizeOf(type));
    std::vector<std::byte> data(count * sizeOf(type)), out(data.size()), expected(data.size());
    for (double factor : {0.5, -1.0, 3.7, 1 / 7.0, 1e9, kNan}) {
      for (std::size_t i = 0; i < count; ++i) {
        setElement(data.data(), i, type, i);
        setElement(expected.data(), i, type, scaleElement(type, i, factor));
      }
      kernels::scaleFunction(type)(out.data(), data.data(), count, factor);
      INFO("factor " << factor << ", type " << static_cast<int>(type));
      CHECK(firstDifference(type, out.data(), expected.data(), count) == count);
    }
  }
}

TEST_CASE("the ends of wide integers saturate") {
  const auto scaled = [](DataType type, std::uint64_t bits, double factor) {
    std::uint64_t out = 0;
    kernels::scaleFunction(type)(&out, &bits, 1, factor);
    return out;
  };
  CHECK(scaled(DataType::int64, 0x7fffffffffffffff, 1.0) == 0x7fffffffffffffff);
  CHECK(scaled(DataType::int64, 0x8000000000000000, 1.0) == 0x8000000000000000);
  CHECK(scaled(DataType::int64, 0x8000000000000000, -1.0) == 0x7fffffffffffffff);
  CHECK(scaled(DataType::uint64, ~std::uint64_t{0}, 1.0) == ~std::uint64_t{0});
  CHECK(scaled(DataType::uint64, 5, -1.0) == 0);
  CHECK(scaled(DataType::int32, 0x7fffffff, 2.0) == 0x7fffffff);
  CHECK(scaled(DataType::uint32, 0xffffffff, 0.5) == 0x7fffffff);
}

TEST_CASE("integers are divided toward zero") {
  for (DataType type : kDataTypes) {
    if (isFloat(type)) continue;
    const std::size_t count = 1000, shift = 64 - 8 * sizeOf(type);
    const std::vector<std::byte> source = Inputs(type, 5).bytes(count);
    for (long long divisor : {1LL, 2LL, 3LL, 8LL, 127LL, 1000LL, 1LL << 40}) {
      std::vector<std::byte> data(source.size() + 1);
      std::copy(source.begin(), source.end(), data.begin() + 1); // misaligned
      kernels::divideIntegers(data.data() + 1, count, type, divisor);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t bits = element(source.data(), i, type);
        const auto whole = static_cast<std::int64_t>(bits << shift) >> shift;
        const std::uint64_t expected =
            traits(type).isSignedInteger()
                ? static_cast<std::uint64_t>(whole / divisor) << shift >> shift
                : bits / static_cast<std::uint64_t>(divisor);
        INFO("divisor " << divisor << ", type " << static_cast<int>(type) << ", element " << i);
        REQUIRE(element(data.data() + 1, i, type) == expected);
      }
    }
  }
}

} // namespace rondo::test
