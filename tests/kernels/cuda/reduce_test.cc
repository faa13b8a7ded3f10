// Proves, by running the source of the CUDA kernels on the host: for every type and operator the
// reduction gives the same bits as the CPU's kernels, for any number of inputs and outputs, any
// count, any alignment of each operand, in place, and any number of blocks. Every access is
// aligned, no byte outside the operands is read, and none outside the outputs is written.
#include "kernels/cuda/reduce/body.h"
#include "tests/kernels/cuda/checked_access.h"
#include "tests/kernels/cuda/cuda_test.h"

namespace rondo::test {
namespace {

using kernels::cuda::Workers;

constexpr double kFactor = 1 / 3.0;
constexpr std::int32_t kDivisor = 3;
constexpr int kThreads = 3; ///< of a block: few, so that small counts fill tiles
constexpr std::size_t kNone = ~std::size_t{0};

struct Pointers {
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;

  unsigned inputs() const { return static_cast<unsigned>(in.size()); }
  unsigned outputs() const { return static_cast<unsigned>(out.size()); }
  const std::byte* input(unsigned k) const { return in[k]; }
  std::byte* output(unsigned j) const { return out[j]; }
  bool scaled(unsigned k) const { return k % 2 == 0; }
  double factor() const { return kFactor; }
  std::int32_t divisor() const { return kDivisor; }
};

using Body = void (*)(const Pointers&, std::size_t count, Workers<kThreads>);

template <DataType kType, ReduceOp::Kind kKind>
void body(const Pointers& pointers, std::size_t count, Workers<kThreads> workers) {
  kernels::cuda::Reduction<kType, kKind, CheckedAccess, Workers<kThreads>, Pointers>(pointers,
                                                                                     count, workers)
      .run();
}

/// One case: source data and the expected results, computed once by the CPU's kernels.
class Case {
 public:
  /// `body`: of body<type, kind>.
  Case(DataType type, ReduceOp::Kind kind, Body body, std::size_t inputs, std::size_t outputs,
       std::size_t count)
      : type_(type),
        kind_(kind),
        body_(body),
        size_(sizeOf(type)),
        outputs_(outputs),
        expected_(count * size_),
        result_(outputs) {
    const bool scales =
        kind == ReduceOp::Kind::premul_sum || (kind == ReduceOp::Kind::avg && isFloat(type));
    Inputs source(type, static_cast<unsigned>(inputs * 100 + outputs));
    std::vector<std::vector<std::byte>> prepared;
    for (std::size_t k = 0; k < inputs; ++k) {
      source_.push_back(source.bytes(count));
      prepared.push_back(source_[k]);
      if (scales && k % 2 == 0)
        kernels::scaleFunction(type)(prepared[k].data(), source_[k].data(), count, kFactor);
    }
    std::vector<const void*> in;
    for (auto& p : prepared) in.push_back(p.data());
    void* out[] = {expected_.data()};
    kernels::reduceFunction(type, kind)(out, 1, in.data(), inputs, count);
    if (kind == ReduceOp::Kind::avg && !isFloat(type))
      kernels::divideIntegers(expected_.data(), count, type, kDivisor);
    for (auto& memory : result_) memory.resize(expected_.size() + 64);
    memory_.resize(inputs, std::vector<std::byte>(expected_.size() + 64));
  }

  /// Runs `blocks` blocks on the first `count` elements. Operand k (inputs first) is offsets[k]
  /// bytes off an alignment to 16. Output alias[0] is input alias[1].
  void run(std::size_t count, const std::vector<unsigned>& offsets, std::size_t blocks,
           std::pair<std::size_t, std::size_t> alias = {kNone, kNone}) {
    const std::size_t bytes = count * size_;
    Pointers pointers;
    CheckedAccess::ranges.clear();
    for (std::size_t k = 0; k < memory_.size(); ++k) {
      std::byte* at = place(memory_[k], offsets[k]);
      std::copy_n(source_[k].data(), bytes, at);
      pointers.in.push_back(at);
      CheckedAccess::ranges.push_back({at, at + bytes, false});
    }
    for (std::size_t j = 0; j < outputs_; ++j) {
      std::byte* at = j == alias.first ? const_cast<std::byte*>(pointers.in[alias.second])
                                       : place(result_[j], offsets[memory_.size() + j]);
      pointers.out.push_back(at);
      CheckedAccess::ranges.push_back({at, at + bytes, true});
    }
    INFO(describe(type_, kind_) << ", " << memory_.size() << " inputs, " << outputs_ << " outputs, "
                                << count << " elements, " << blocks << " blocks, in place "
                                << (alias.first != kNone));
    // Runs the threads one after the other, so a thread that reads what another one has written
    // gives a wrong result.
    for (std::size_t thread = 0; thread < blocks * kThreads; ++thread)
      body_(pointers, count, {thread % kThreads, thread / kThreads, blocks});
    for (std::byte* out : pointers.out) {
      const std::size_t i = firstDifference(type_, out, expected_.data(), count);
      if (i != count) FAIL("differs at element " << i << " of output at " << offsets.back());
    }
  }

 private:
  static std::byte* place(std::vector<std::byte>& memory, unsigned offset) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    return memory.data() + (16 - address % 16) % 16 + offset;
  }

  DataType type_;
  ReduceOp::Kind kind_;
  Body body_;
  std::size_t size_, outputs_;
  std::vector<std::vector<std::byte>> source_, memory_;
  std::vector<std::byte> expected_;
  std::vector<std::vector<std::byte>> result_;
};

/// Two tiles of a block, one vector for each thread, two vectors at the ends and a remainder: every
/// path of the kernel runs.
std::size_t most(DataType type) { return ((2 * 4 + 1) * kThreads + 2) * 16 / sizeOf(type) + 3; }

void runAll(DataType type, ReduceOp::Kind kind, Body body) {
  const std::size_t size = sizeOf(type), step = kWholeGrid ? 3 : 19;
  for (std::size_t inputs : {1, 2, 3})
    for (std::size_t outputs : {1, 2}) {
      Case one(type, kind, body, inputs, outputs, most(type));
      std::vector<unsigned> offsets(inputs + outputs, 0), odd(inputs + outputs);
      for (std::size_t k = 0; k < odd.size(); ++k) odd[k] = (k * 7 + 1) % 16;
      for (std::size_t count = 0; count <= most(type); count += count < 64 / size ? 1 : step) {
        one.run(count, offsets, 1);
        one.run(count, odd, 1);
        one.run(count, offsets, 3, {outputs - 1, inputs - 1});
        one.run(count, odd, 3, {0, 0});
      }
      // All operands misaligned by the same number of bytes, and each operand alone.
      for (unsigned offset = 1; offset < 16; offset += kWholeGrid ? 1 : 3) {
        one.run(most(type), std::vector<unsigned>(offsets.size(), offset), 2);
        for (std::size_t k = 0; k < offsets.size(); ++k) {
          offsets[k] = offset;
          one.run(most(type), offsets, 2);
          one.run(most(type), offsets, 2, {outputs / 2, inputs / 2});
          offsets[k] = 0;
        }
      }
    }
}

template <DataType kType>
Case sumOf(std::size_t inputs, std::size_t outputs, std::size_t count) {
  constexpr auto kSum = ReduceOp::Kind::sum;
  return {kType, kSum, body<kType, kSum>, inputs, outputs, count};
}

} // namespace

TEST_CASE("all reductions are right at every count and misalignment") {
  forEachReduction([](auto type, auto kind) { runAll(type(), kind(), body<type(), kind()>); });
}

TEST_CASE("many inputs and outputs are reduced") {
  forEachType([](auto type) {
    for (std::size_t inputs : {8, 9, 64}) {
      Case one = sumOf<type()>(inputs, 5, most(type));
      std::vector<unsigned> odd(inputs + 5);
      for (std::size_t k = 0; k < odd.size(); ++k) odd[k] = (k * 5) % 16;
      one.run(most(type), std::vector<unsigned>(odd.size(), 0), 1);
      one.run(most(type), odd, 2, {3, 4});
    }
  });
}

TEST_CASE("the blocks of a large grid divide the work") {
  forEachType([](auto type) {
    Case one = sumOf<type()>(2, 1, 5000);
    for (std::size_t blocks : {1, 2, 7, 64, 5000}) one.run(5000, {0, 4, 0}, blocks, {0, 0});
  });
}

} // namespace rondo::test
