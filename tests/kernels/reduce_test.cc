// Proves for every type and operator, on every instruction set of the machine: the kernels give the
// reference's bits for any number of inputs and outputs, any count, any alignment, in place, and
// access nothing outside their operands.
#include <sys/mman.h>
#include <unistd.h>

#include "tests/kernels/kernel_test.h"

namespace rondo::test {
namespace {

constexpr std::size_t kGuard = 64; ///< sentinel bytes on both sides of an operand
constexpr std::byte kSentinel{0xa5};
constexpr std::size_t kMaxOffset = 64;

/// Elements of the longest vector of any instruction set.
std::size_t vectorElements(DataType type) { return 64 / sizeOf(type); }

/// All counts in [0, 2N), and counts on both sides of the start of the unrolled loop.
std::vector<std::size_t> counts(DataType type) {
  const std::size_t n = vectorElements(type);
  std::vector<std::size_t> all(2 * n);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  for (std::size_t c : {4 * n - 1, 4 * n, 4 * n + 1, 5 * n, 9 * n + 3}) all.push_back(c);
  return all;
}

/// Memory of one operand between sentinels, at a chosen distance from an aligned address.
class Operand {
 public:
  explicit Operand(std::size_t max_bytes) : memory_(max_bytes + 2 * kGuard + kMaxOffset + 64) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    base_ = memory_.data() + (64 - address % 64) % 64 + kGuard;
  }
  void place(std::size_t offset, std::size_t bytes) {
    data_ = base_ + offset;
    bytes_ = bytes;
    std::fill(data_ - kGuard, data_ + bytes + kGuard, kSentinel);
  }
  std::byte* data() { return data_; }
  bool sentinelsIntact() const {
    const auto intact = [](std::byte b) { return b == kSentinel; };
    return std::all_of(data_ - kGuard, data_, intact) &&
           std::all_of(data_ + bytes_, data_ + bytes_ + kGuard, intact);
  }

 private:
  std::vector<std::byte> memory_;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Case {
  DataType type;
  ReduceOp::Kind op;
  std::size_t inputs, outputs;
};

/// Runs one case with many counts and placements. The expected elements do not depend on either, so
/// they are computed once.
class Grid {
 public:
  explicit Grid(const Case& c) : c_(c), counts_(counts(c.type)) {
    const std::size_t most = *std::max_element(counts_.begin(), counts_.end());
    Inputs inputs(c.type, static_cast<unsigned>(c.inputs * 100 + c.outputs));
    for (std::size_t k = 0; k < c.inputs; ++k) source_.push_back(inputs.bytes(most));
    expected_.resize(most * sizeOf(c.type));
    std::vector<std::uint64_t> one(c.inputs);
    for (std::size_t i = 0; i < most; ++i) {
      for (std::size_t k = 0; k < c.inputs; ++k) one[k] = element(source_[k].data(), i, c.type);
      setElement(expected_.data(), i, c.type, reduceElement(c.type, c.op, one));
    }
    for (std::size_t k = 0; k < c.inputs + c.outputs; ++k) operands_.emplace_back(expected_.size());
  }

  void run(kernels::ReduceFunction function) {
    const std::size_t operands = c_.inputs + c_.outputs;
    std::vector<std::size_t> offsets(operands, 0), odd(operands);
    for (std::size_t k = 0; k < operands; ++k) odd[k] = (k * 7 + 1) % kMaxOffset;
    for (std::size_t count : counts_) {
      call(function, count, offsets);
      call(function, count, odd);
      call(function, count, odd, 0, 0);
      call(function, count, offsets, c_.outputs - 1, c_.inputs - 1);
    }
    // Each operand alone misaligned, with a count at which the loop, single vectors and the last
    // vector all run.
    for (std::size_t k = 0; k < operands; ++k) {
      for (std::size_t offset : {sizeOf(c_.type), std::size_t{1}, std::size_t{63}}) {
        offsets[k] = offset;
        call(function, counts_.back(), offsets);
        call(function, counts_.back(), offsets, c_.outputs / 2, c_.inputs / 2);
      }
      offsets[k] = 0;
    }
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  /// Output `alias_output` is input `alias_input`, if given.
  void call(kernels::ReduceFunction function, std::size_t count,
            const std::vector<std::size_t>& offsets, std::size_t alias_output = kNone,
            std::size_t alias_input = kNone) {
    const std::size_t bytes = count * sizeOf(c_.type);
    std::vector<const void*> in(c_.inputs);
    std::vector<void*> out(c_.outputs);
    for (std::size_t k = 0; k < operands_.size(); ++k) operands_[k].place(offsets[k], bytes);
    for (std::size_t k = 0; k < c_.inputs; ++k) {
      std::copy_n(source_[k].data(), bytes, operands_[k].data());
      in[k] = operands_[k].data();
    }
    for (std::size_t j = 0; j < c_.outputs; ++j)
      out[j] = operands_[j == alias_output ? alias_input : c_.inputs + j].data();

    function(out.data(), c_.outputs, in.data(), c_.inputs, count);

    INFO(describe(c_.type, c_.op) << ", " << c_.inputs << " inputs, " << c_.outputs
                                  << " outputs, count " << count << ", aliased "
                                  << (alias_output != kNone));
    bool good = true;
    for (std::size_t j = 0; j < c_.outputs; ++j)
      good = good && firstDifference(c_.type, static_cast<std::byte*>(out[j]), expected_.data(),
                                     count) == count;
    for (std::size_t k = 0; k < c_.inputs; ++k)
      good = good && (k == alias_input || std::equal(source_[k].data(), source_[k].data() + bytes,
                                                     operands_[k].data()));
    for (const Operand& operand : operands_) good = good && operand.sentinelsIntact();
    if (!good) explain(out, alias_input, count);
  }

  /// Reports which of the checks failed.
  void explain(const std::vector<void*>& out, std::size_t alias_input, std::size_t count) {
    for (std::size_t j = 0; j < c_.outputs; ++j) {
      const auto* got = static_cast<const std::byte*>(out[j]);
      const std::size_t i = firstDifference(c_.type, got, expected_.data(), count);
      INFO("output " << j << " differs at element " << i);
      if (i < count) CHECK(element(got, i, c_.type) == element(expected_.data(), i, c_.type));
    }
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      INFO("operand " << k);
      CHECK(operands_[k].sentinelsIntact());
      if (k < c_.inputs && k != alias_input)
        CHECK(std::memcmp(source_[k].data(), operands_[k].data(), count * sizeOf(c_.type)) == 0);
    }
    FAIL("see above");
  }

  Case c_;
  std::vector<std::size_t> counts_;
  std::vector<std::vector<std::byte>> source_;
  std::vector<std::byte> expected_;
  std::vector<Operand> operands_;
};

/// Two pages. An operand ends where the second page, which is inaccessible, begins, or starts where
/// an inaccessible page ends.
class Fence {
 public:
  Fence() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    void* memory =
        mmap(nullptr, 3 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    memory_ = static_cast<std::byte*>(memory);
    REQUIRE(mprotect(memory_, page_, PROT_NONE) == 0);
    REQUIRE(mprotect(memory_ + 2 * page_, page_, PROT_NONE) == 0);
  }
  ~Fence() { munmap(memory_, 3 * page_); }
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;
  std::byte* atEnd(std::size_t bytes) { return memory_ + 2 * page_ - bytes; }
  std::byte* atBegin() { return memory_ + page_; }

 private:
  std::size_t page_;
  std::byte* memory_;
};

} // namespace

TEST_CASE("reductions equal the reference, bit for bit") {
  const auto some = [](std::vector<std::size_t> whole, std::vector<std::size_t> thin) {
    return kWholeGrid ? whole : thin;
  };
  for (DataType type : kDataTypes)
    for (ReduceOp::Kind op : distinctOperators(type))
      for (std::size_t inputs : some({1, 2, 3, 5, 8, 9}, {1, 2, 9}))
        for (std::size_t outputs : some({1, 2, 3}, {1, 3})) {
          Grid grid({type, op, inputs, outputs});
          forEachInstructionSet([&](const std::string& set) {
            INFO(set);
            grid.run(kernels::reduceFunction(type, op));
          });
        }
}

TEST_CASE("large reductions equal the reference") {
  const std::size_t count = (std::size_t{1} << 17) + 5;
  for (DataType type : kDataTypes) {
    Inputs inputs(type, 7);
    const std::vector<std::vector<std::byte>> source = {inputs.bytes(count), inputs.bytes(count)};
    for (std::size_t used : {1, 2}) {
      std::vector<std::byte> expected(source[0].size());
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t pair[] = {element(source[0].data(), i, type),
                                      element(source[1].data(), i, type)};
        setElement(expected.data(), i, type,
                   reduceElement(type, ReduceOp::Kind::sum, std::span(pair, used)));
      }
      forEachInstructionSet([&](const std::string& set) {
        for (std::size_t outputs : {1, 3}) {
          std::vector<std::vector<std::byte>> result(outputs, source[0]); // the first is in place
          std::vector<void*> out;
          for (auto& r : result) out.push_back(r.data());
          const void* in[] = {result[0].data(), source[1].data()};
          kernels::reduceFunction(type, ReduceOp::Kind::sum)(out.data(), outputs, in, used, count);
          INFO(set << ", " << describe(type, ReduceOp::Kind::sum) << ", " << outputs << " outputs");
          for (auto& r : result)
            CHECK(firstDifference(type, r.data(), expected.data(), count) == count);
        }
      });
    }
  }
}

TEST_CASE("nothing outside an operand is read") {
  Fence fences[3];
  for (DataType type : kDataTypes)
    for (ReduceOp::Kind op : distinctOperators(type))
      forEachInstructionSet([&](const std::string&) {
        const kernels::ReduceFunction function = kernels::reduceFunction(type, op);
        const kernels::ScaleFunction scale = kernels::scaleFunction(type);
        for (std::size_t count : counts(type))
          for (bool end : {false, true}) {
            const auto at = [&](std::size_t k) {
              return end ? fences[k].atEnd(count * sizeOf(type)) : fences[k].atBegin();
            };
            void* out[] = {at(0)};
            const void* in[] = {at(0), at(1), at(2)};
            for (std::size_t inputs : {1, 2, 3}) function(out, 1, in, inputs, count);
            // A fault would end the test, so there is nothing else to check.
            scale(out[0], in[1], count, 1.0);
          }
      });
  SUCCEED();
}

TEST_CASE("no elements need no memory") {
  for (DataType type : kDataTypes) {
    for (ReduceOp::Kind op : distinctOperators(type))
      for (std::size_t n : {1, 2, 3}) {
        void* out[] = {nullptr, nullptr, nullptr};
        const void* in[] = {nullptr, nullptr, nullptr};
        kernels::reduceFunction(type, op)(out, n, in, n, 0);
      }
    kernels::scaleFunction(type)(nullptr, nullptr, 0, 2.0);
  }
  SUCCEED();
}

TEST_CASE("every operator that a type supports has a function, averages are sums") {
  for (DataType type : kDataTypes) {
    for (ReduceOp op : kReduceOps)
      if (op.supports(type)) CHECK(kernels::reduceFunction(type, op.kind()) != nullptr);
    const auto sum = kernels::reduceFunction(type, ReduceOp::Kind::sum);
    CHECK(kernels::reduceFunction(type, ReduceOp::Kind::avg) == sum);
    CHECK(kernels::reduceFunction(type, ReduceOp::Kind::premul_sum) == sum);
    CHECK(kernels::scaleFunction(type) != nullptr);
  }
}

TEST_CASE("each instruction set has functions of its own") {
  std::vector<kernels::ReduceFunction> seen;
  forEachInstructionSet([&](const std::string&) {
    seen.push_back(kernels::reduceFunction(DataType::float32, ReduceOp::Kind::sum));
  });
  CHECK(seen.size() >= 1);
  for (std::size_t i = 0; i < seen.size(); ++i)
    CHECK(std::count(seen.begin(), seen.end(), seen[i]) == 1);
}

} // namespace rondo::test
