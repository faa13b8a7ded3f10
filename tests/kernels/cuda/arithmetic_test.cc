// Proves that the arithmetic of the CUDA kernels, compiled for the host, gives the same bits as the
// CPU's kernels: every type and operator with any number of inputs, all codes of the narrow types,
// every rounding decision, scaling and dividing. (The few GPU instructions that replace the
// portable code are compared with it on machines with a GPU.)
#include <limits>

#include "kernels/cuda/element/formats.h"
#include "kernels/cuda/element/operators.h"
#include "kernels/cuda/element/scaling.h"
#include "tests/kernels/cuda/cuda_test.h"

namespace rondo::test {
namespace {

using kernels::cuda::kPerWord;
using kernels::cuda::Word;

template <DataType kType>
using FormatOf = kernels::cuda::Format<kType>;

/// Reduces whole words, as the kernels do. The count is a multiple of a word's elements.
template <DataType kType, ReduceOp::Kind kKind>
std::vector<std::byte> reduceWords(const std::vector<std::vector<std::byte>>& inputs) {
  using F = FormatOf<kType>;
  std::vector<std::byte> result(inputs[0].size());
  for (std::size_t at = 0; at < result.size(); at += sizeof(Word<F>)) {
    typename F::Value sum[kPerWord<F>] = {}, next[kPerWord<F>];
    Word<F> word;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      std::memcpy(&word, inputs[k].data() + at, sizeof(word));
      kernels::cuda::unpack<F>(word, k == 0 ? sum : next);
      for (int i = 0; k > 0 && i < kPerWord<F>; ++i)
        sum[i] = kernels::cuda::Operator<kKind>()(sum[i], next[i]);
    }
    word = kernels::cuda::pack<F>(sum);
    std::memcpy(result.data() + at, &word, sizeof(word));
  }
  return result;
}

template <DataType kType, ReduceOp::Kind kKind>
void compareWithCpu(const std::vector<std::vector<std::byte>>& inputs) {
  const std::size_t count = inputs[0].size() / sizeOf(kType);
  const std::vector<std::byte> got = reduceWords<kType, kKind>(inputs);
  std::vector<std::byte> expected(got.size());
  std::vector<const void*> in;
  for (const auto& input : inputs) in.push_back(input.data());
  void* out[] = {expected.data()};
  kernels::reduceFunction(kType, kKind)(out, 1, in.data(), in.size(), count);
  const std::size_t i = firstDifference(kType, got.data(), expected.data(), count);
  if (i == count) return;
  INFO(describe(kType, kKind) << ", " << inputs.size() << " inputs, element " << i);
  for (const auto& input : inputs) UNSCOPED_INFO("operand " << element(input.data(), i, kType));
  CHECK(element(got.data(), i, kType) == element(expected.data(), i, kType));
}

template <DataType kType>
std::vector<std::byte> scaled(const std::vector<std::byte>& input, double factor) {
  using F = FormatOf<kType>;
  const kernels::cuda::Scaling<kType> scaling(factor);
  std::vector<std::byte> result(input.size());
  for (std::size_t i = 0; i < input.size() / sizeOf(kType); ++i) {
    const auto code = static_cast<typename F::Element>(element(input.data(), i, kType));
    setElement(result.data(), i, kType, F::store(scaling(F::load(code))));
  }
  return result;
}

/// All codes of an 8- or 16-bit type.
std::vector<std::byte> everyCode(DataType type) {
  const std::size_t count = std::size_t{1} << (8 * sizeOf(type));
  std::vector<std::byte> codes(count * sizeOf(type));
  for (std::size_t i = 0; i < count; ++i) setElement(codes.data(), i, type, i);
  return codes;
}

} // namespace

TEST_CASE("the shared arithmetic gives the bits of the CPU's kernels") {
  forEachReduction([](auto type, auto kind) {
    for (std::size_t inputs : {1, 2, 3, 5, 8, 9}) {
      Inputs source(type, static_cast<unsigned>(inputs));
      std::vector<std::vector<std::byte>> data;
      for (std::size_t k = 0; k < inputs; ++k) data.push_back(source.bytes(4096));
      compareWithCpu<type(), kind()>(data);
    }
  });
}

TEST_CASE("every pair of 8-bit codes is combined as on the CPU") {
  forEachReduction([](auto type, auto kind) {
    if constexpr (sizeOf(type()) == 1) {
      std::vector<std::vector<std::byte>> pairs(2);
      for (int a = 0; a < 256; ++a)
        for (int b = 0; b < 256; ++b) {
          pairs[0].push_back(static_cast<std::byte>(a));
          pairs[1].push_back(static_cast<std::byte>(b));
        }
      compareWithCpu<type(), kind()>(pairs);
    }
  });
}

TEST_CASE("every 16-bit code is combined with numbers of every size as on the CPU") {
  forEachReduction([](auto type, auto kind) {
    if constexpr (sizeOf(type()) == 2) {
      std::vector<std::byte> partners = everyCode(type);
      // With a stride coprime to 2^16, all codes occur as partners, and neighbours get distant
      // ones.
      for (std::uint32_t a = 0; a < 65536; ++a)
        setElement(partners.data(), a, type, (a * 40503u + 1) & 0xffff);
      compareWithCpu<type(), kind()>({everyCode(type), partners});
    }
  });
}

TEST_CASE("every rounding decision of the small floats equals the reference") {
  // Rounding is monotonic, and its result changes only at the ties. So if it is right at every tie
  // and on both sides of it, it is right everywhere.
  forEachType([](auto type) {
    if constexpr (isFloat(type()) && sizeOf(type()) <= 2) {
      using F = FormatOf<type()>;
      const Format format = smallFormat(type);
      const auto check = [&](float value) {
        for (float signed_value : {value, -value}) {
          const std::uint32_t code = F::store(signed_value);
          if (sameElement(type, code, format.encode(signed_value))) continue;
          FAIL("type " << static_cast<int>(type()) << ", " << signed_value << " gives " << code);
        }
      };
      for (std::uint32_t code = 0; code <= format.largestCode(); ++code) {
        const double low = format.decode(code);
        const double high = low + std::ldexp(1, format.ulpExponent(low == 0 ? 0x1p-200 : low));
        const auto tie = static_cast<float>((low + high) / 2);
        for (float value : {static_cast<float>(low), std::nextafterf(tie, 0), tie,
                            std::nextafterf(tie, std::numeric_limits<float>::infinity())})
          check(value);
      }
      check(std::numeric_limits<float>::max());
      check(std::numeric_limits<float>::infinity());
      check(std::numeric_limits<float>::quiet_NaN());
      check(std::bit_cast<float>(0x7fffffffu)); // a carry out of it would give -0
      check(std::bit_cast<float>(0x7f800001u));
    }
  });
}

TEST_CASE("the small floats are widened exactly") {
  forEachType([](auto type) {
    if constexpr (isFloat(type()) && sizeOf(type()) <= 2) {
      using F = FormatOf<type()>;
      const Format format = smallFormat(type);
      for (std::uint32_t code = 0; code < 2 * format.signBit(); ++code) {
        const float got = F::load(static_cast<typename F::Element>(code));
        const double expected = format.decode(code);
        if (std::isnan(expected) ? !std::isnan(got)
                                 : got != expected || std::signbit(got) != std::signbit(expected))
          FAIL("type " << static_cast<int>(type()) << ", code " << code << " gives " << got);
      }
    }
  });
}

TEST_CASE("scaling gives the bits of the CPU's kernels") {
  forEachType([](auto type) {
    const std::vector<std::byte> input =
        sizeOf(type()) <= 2 ? everyCode(type) : Inputs(type, 3).bytes(4096);
    for (double factor : {1.0, 0.5, 1.0 / 3, -2.75, 0.0, -1.0, 1e30, -1e-30, 1e300,
                          std::numeric_limits<double>::quiet_NaN()}) {
      std::vector<std::byte> expected(input.size());
      const std::size_t count = input.size() / sizeOf(type());
      kernels::scaleFunction(type)(expected.data(), input.data(), count, factor);
      const std::vector<std::byte> got = scaled<type()>(input, factor);
      INFO("type " << static_cast<int>(type()) << ", factor " << factor);
      CHECK(firstDifference(type, got.data(), expected.data(), count) == count);
    }
  });
}

TEST_CASE("the ends of wide integers saturate as on the CPU") {
  forEachType([](auto type) {
    if constexpr (!isFloat(type()) && sizeOf(type()) >= 4) {
      const std::uint64_t sign = std::uint64_t{1} << (8 * sizeOf(type()) - 1);
      for (std::uint64_t bits : {std::uint64_t{0}, sign - 1, sign, sign + 1, ~std::uint64_t{0}})
        for (double factor : {1.0, -1.0, 2.0, 0.5, 1 + 0x1p-52}) {
          std::vector<std::byte> input(sizeOf(type())), expected(sizeOf(type()));
          setElement(input.data(), 0, type, bits);
          kernels::scaleFunction(type)(expected.data(), input.data(), 1, factor);
          INFO("type " << static_cast<int>(type()) << ", " << bits << " * " << factor);
          CHECK(scaled<type()>(input, factor) == expected);
        }
    }
  });
}

TEST_CASE("integers are divided as on the CPU") {
  forEachType([](auto type) {
    if constexpr (!isFloat(type())) {
      using F = FormatOf<type()>;
      std::vector<std::byte> expected = Inputs(type, 5).bytes(4096);
      for (std::int32_t divisor : {1, 2, 3, 8, 127, 1000, std::numeric_limits<int>::max()}) {
        std::vector<std::byte> got = expected;
        const std::size_t count = got.size() / sizeOf(type());
        for (std::size_t i = 0; i < count; ++i) {
          const auto code = static_cast<typename F::Element>(element(got.data(), i, type));
          setElement(got.data(), i, type,
                     F::store(kernels::cuda::divide<F>(F::load(code), divisor)));
        }
        kernels::divideIntegers(expected.data(), count, type, divisor);
        INFO("type " << static_cast<int>(type()) << ", divisor " << divisor);
        CHECK(got == expected);
      }
    }
  });
}

} // namespace rondo::test
