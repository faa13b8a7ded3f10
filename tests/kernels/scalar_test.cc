// Proves: the scalar reductions of one element, by which Options::check_reductions checks other
// ranks, give the reference's bits for every type and operator.
#include <array>
#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace rondo::test {
namespace {

constexpr int kTimes = kWholeGrid ? 4000 : 400;

} // namespace

TEST_CASE("a reduction of one element equals the reference") {
  for (const DataType type : kDataTypes)
    for (const ReduceOp op : kReduceOps) {
      if (!op.supports(type)) continue;
      Inputs inputs(type, static_cast<unsigned>(op.kind()));
      for (int i = 0; i < kTimes; ++i) {
        std::array<std::uint64_t, 3> elements{};
        for (std::uint64_t& element : elements) element = inputs.next();
        const std::span some(elements.data(), 2 + static_cast<std::size_t>(i % 2));
        const std::uint64_t expected = reduceElement(type, op.kind(), some);
        const std::uint64_t got = kernels::reduceElement(type, op.kind(), some);
        INFO(describe(type, op.kind()) << std::hex << ": " << elements[0] << " " << elements[1]
                                       << ": " << got << " instead of " << expected);
        REQUIRE(sameElement(type, got, expected));
        REQUIRE(kernels::sameElement(type, got, expected));
      }
    }
}

TEST_CASE("one scaled element equals the reference") {
  for (const DataType type : kDataTypes) {
    Inputs inputs(type);
    for (const double factor : {0.5, 1.0 / 3, -1.7, 1e30, std::nan("")})
      for (int i = 0; i < kTimes / 4; ++i) {
        const std::uint64_t element = inputs.next();
        const std::uint64_t expected = scaleElement(type, element, factor);
        const std::uint64_t got = kernels::scaleElement(type, element, factor);
        INFO("type " << static_cast<int>(type) << std::hex << ": " << element << ": " << got
                     << " instead of " << expected);
        REQUIRE(sameElement(type, got, expected));
      }
  }
}

// Proves: elements with different bits are equal only if both are NaN.
TEST_CASE("elements are compared by their bits, except NaN") {
  for (const DataType type : kDataTypes) {
    Inputs inputs(type);
    for (int i = 0; i < kTimes; ++i) {
      const std::uint64_t a = inputs.next(), b = i % 4 == 0 ? a : inputs.next();
      CHECK(kernels::sameElement(type, a, b) == sameElement(type, a, b));
    }
  }
}

TEST_CASE("an element as text") {
  CHECK(kernels::elementText(DataType::int8, 0xff) == "-1");
  CHECK(kernels::elementText(DataType::uint64, ~std::uint64_t{0}) == "18446744073709551615");
  CHECK(kernels::elementText(DataType::float32, 0x40400001) == "3.00000024 (0x40400001)");
  CHECK(kernels::elementText(DataType::bfloat16, 0xc000) == "-2 (0xc000)");
}

} // namespace rondo::test
