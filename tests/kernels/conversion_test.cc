// Proves that the 16- and 8-bit floats are widened exactly and rounded once, to nearest even: for
// every code, every pair of 8-bit codes, and sums just below, at and just above every tie.
#include "tests/kernels/kernel_test.h"

namespace rondo::test {
namespace {

/// The floats with 8 or 16 bits, or only those of one size.
std::vector<DataType> smallFloats(std::size_t bytes = 0) {
  std::vector<DataType> types;
  for (const DataType type : kDataTypes)
    if (isSmallFloat(type) && (bytes == 0 || bytes == sizeOf(type))) types.push_back(type);
  return types;
}

/// Columns of operands, reduced at once and compared with the reference.
class Columns {
 public:
  Columns(DataType type, std::size_t inputs) : type_(type), inputs_(inputs) {}

  void add(std::initializer_list<std::uint64_t> codes) {
    std::size_t k = 0;
    for (std::uint64_t code : codes) {
      auto& column = inputs_[k++];
      column.resize(column.size() + sizeOf(type_));
      setElement(column.data(), size_, type_, code);
    }
    ++size_;
  }

  void check(ReduceOp::Kind op) {
    std::vector<std::byte> expected(inputs_[0].size()), got(inputs_[0].size());
    std::vector<std::uint64_t> one(inputs_.size());
    std::vector<const void*> in;
    for (auto& column : inputs_) in.push_back(column.data());
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t k = 0; k < one.size(); ++k) one[k] = element(inputs_[k].data(), i, type_);
      setElement(expected.data(), i, type_, reduceElement(type_, op, one));
    }
    forEachInstructionSet([&](const std::string& set) {
      void* out[] = {got.data()};
      kernels::reduceFunction(type_, op)(out, 1, in.data(), in.size(), size_);
      const std::size_t i = firstDifference(type_, got.data(), expected.data(), size_);
      if (i == size_) return;
      INFO(set << ", " << describe(type_, op));
      for (auto& column : inputs_) UNSCOPED_INFO("operand " << element(column.data(), i, type_));
      CHECK(element(got.data(), i, type_) == element(expected.data(), i, type_));
    });
  }

 private:
  DataType type_;
  std::vector<std::vector<std::byte>> inputs_;
  std::size_t size_ = 0;
};

} // namespace

TEST_CASE("the reference decodes what it encodes, and the formats' special values are right") {
  for (DataType type : smallFloats()) {
    const Format f = smallFormat(type);
    for (std::uint32_t code = 0; code < 2 * f.signBit(); ++code) {
      if (f.isNan(code)) continue;
      INFO("code " << code);
      REQUIRE(f.encode(f.decode(code)) == code);
    }
  }
  CHECK(smallFormat(DataType::float8e4m3).decode(0x7e) == 448);
  CHECK(smallFormat(DataType::float8e4m3).decode(0x01) == 0x1p-9);
  CHECK(smallFormat(DataType::float8e4m3).encode(1e9) == 0x7e);
  CHECK(smallFormat(DataType::float8e5m2).decode(0x7b) == 57344);
  CHECK(smallFormat(DataType::float8e5m2).encode(61440) == 0x7c);
  CHECK(smallFormat(DataType::float8e5m2).encode(61439) == 0x7b);
  CHECK(smallFormat(DataType::float16).decode(0x7bff) == 65504);
  CHECK(smallFormat(DataType::float16).decode(0x0001) == 0x1p-24);
  CHECK(smallFormat(DataType::bfloat16).decode(0x3f80) == 1);
}

TEST_CASE("every code survives widening and rounding") {
  for (DataType type : smallFloats()) {
    Columns columns(type, 2);
    const std::uint32_t sign = smallFormat(type).signBit();
    for (std::uint32_t code = 0; code < 2 * sign; ++code) columns.add({code, sign}); // x + -0 is x
    columns.check(ReduceOp::Kind::sum);
    columns.check(ReduceOp::Kind::max);
  }
}

TEST_CASE("every pair of 8-bit codes gives the right result") {
  for (DataType type : smallFloats(1)) {
    Columns columns(type, 2);
    for (std::uint32_t a = 0; a < 256; ++a)
      for (std::uint32_t b = 0; b < 256; ++b) columns.add({a, b});
    for (ReduceOp::Kind op : distinctOperators(type)) columns.check(op);
  }
}

TEST_CASE("every 16-bit code gives the right result with numbers of every size") {
  for (DataType type : smallFloats(2)) {
    const Format f = smallFormat(type);
    Columns columns(type, 2);
    for (std::uint32_t a = 0; a < 65536; ++a) {
      // With a stride coprime to 2^16, neighbours get distant partners, and all codes occur as
      // partners.
      columns.add({a, (a * 40503u + 1) & 0xffff});
      columns.add({a, f.encode(1.5)});
      columns.add({a, f.encode(-1 / 3.0)});
    }
    for (ReduceOp::Kind op : distinctOperators(type)) columns.check(op);
  }
}

TEST_CASE("sums below, at and above every tie round to nearest even") {
  for (DataType type : smallFloats()) {
    const Format f = smallFormat(type);
    Columns columns(type, 3);
    for (std::uint32_t code = 0; code < 2 * f.signBit(); ++code) {
      const double value = f.decode(code);
      if (!std::isfinite(value)) continue;
      const int ulp = value == 0 ? 1 - f.bias() - f.mantissa_bits : f.ulpExponent(value);
      for (int quarter : {-2, -1, 1, 2, 3}) { // of an ulp: halves are ties
        const double part = std::ldexp(quarter, ulp - 2);
        for (double nudge : {0.0, 1.0, -1.0})
          columns.add({code, f.encode(part), f.encode(std::ldexp(nudge, ulp - 5))});
      }
    }
    columns.check(ReduceOp::Kind::sum);
  }
}

TEST_CASE("products round to nearest even among subnormals and at the largest number") {
  for (DataType type : smallFloats()) {
    const Format f = smallFormat(type);
    Columns columns(type, 3);
    for (std::uint32_t code = 0; code < 2 * f.signBit(); ++code)
      // Two factors give results that no single factor of the format gives.
      for (double a : {f.decode(f.mantissa_bits < 4 ? 0x11 : 0x401), 0.75, 1.25})
        for (double b : {std::ldexp(1.0, 1 - f.bias()), 0.125, std::ldexp(1.75, f.bias() / 2)})
          columns.add({code, f.encode(a), f.encode(b)});
    columns.check(ReduceOp::Kind::prod);
  }
}

} // namespace rondo::test
