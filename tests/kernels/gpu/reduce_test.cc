// Proves on a GPU that the reduction kernels give the bits of the CPU's kernels, and so that the
// instructions that stand in for the shared portable code do: every (type, operator), any number of
// inputs and outputs, any alignment, in place, over grids of one and of many blocks; nothing is
// written outside of the outputs; wrong calls are refused. Without a GPU: that the look-up says
// what is missing.
#include <deque>
#include <limits>

#include "kernels/cuda/reduce/reduce.h"
#include "kernels/cuda/tuning.h"
#include "rondo/error.h"
#include "tests/kernels/gpu/gpu.h"
#include "tests/kernels/kernel_test.h"

namespace rondo::test {
namespace {

using kernels::cuda::CopyKernel;
using kernels::cuda::ReduceCall;
using kernels::cuda::ReduceKernel;

constexpr double kFactor = 1 / 3.0;
constexpr std::int32_t kDivisor = 3;
constexpr std::size_t kGuard = 64;
constexpr std::byte kSentinel{0xa5};

/// What the CPU's kernels make of the inputs.
std::vector<std::byte> expectedOf(DataType type, ReduceOp::Kind kind,
                                  std::vector<std::vector<std::byte>> inputs) {
  using Kind = ReduceOp::Kind;
  const std::size_t count = inputs[0].size() / sizeOf(type);
  if (kind == Kind::premul_sum || (kind == Kind::avg && isFloat(type)))
    for (auto& input : inputs)
      kernels::scaleFunction(type)(input.data(), input.data(), count, kFactor);
  std::vector<std::byte> expected(inputs[0].size());
  std::vector<const void*> in;
  for (auto& input : inputs) in.push_back(input.data());
  void* out[] = {expected.data()};
  kernels::reduceFunction(type, kind)(out, 1, in.data(), in.size(), count);
  if (kind == Kind::avg && !isFloat(type))
    kernels::divideIntegers(expected.data(), count, type, kDivisor);
  return expected;
}

/// Runs one reduction on the GPU, operand k (inputs first) offset(k) bytes off its alignment, and
/// compares every output and the bytes around it.
template <typename Offset>
void compare(DataType type, ReduceOp::Kind kind, const std::vector<std::vector<std::byte>>& inputs,
             std::size_t outputs, Offset offset, bool in_place = false, bool table = false) {
  const std::size_t bytes = inputs[0].size(), count = bytes / sizeOf(type);
  std::deque<DeviceBytes> memory;
  std::vector<const void*> in;
  std::vector<void*> out;
  std::vector<std::byte> host(bytes + 2 * kGuard + 16);
  const auto add = [&](const std::vector<std::byte>* data) {
    std::fill(host.begin(), host.end(), kSentinel);
    const std::size_t begin = kGuard + offset(memory.size());
    if (data) std::copy(data->begin(), data->end(), host.begin() + begin);
    memory.emplace_back(host);
    return memory.back().data() + begin;
  };
  for (const auto& input : inputs) in.push_back(add(&input));
  for (std::size_t j = 0; j < outputs; ++j)
    out.push_back(in_place && j == 0 ? const_cast<void*>(in[0]) : add(nullptr));

  ReduceCall call{
      .outputs = out, .inputs = in, .count = count, .factor = kFactor, .divisor = kDivisor};
  DeviceBytes pointers(in.size() * sizeof(void*));
  if (table) {
    cuda(cudaMemcpy(pointers.data(), in.data(), in.size() * sizeof(void*), cudaMemcpyHostToDevice));
    call.input_table = reinterpret_cast<const void* const*>(pointers.data());
  }
  ReduceKernel(type, kind).launch(call, nullptr);
  cuda(cudaDeviceSynchronize());

  INFO(describe(type, kind) << ", " << inputs.size() << " inputs, " << outputs << " outputs, "
                            << count << " elements, in place " << in_place << ", table " << table);
  const std::vector<std::byte> expected = expectedOf(type, kind, inputs);
  for (std::size_t j = 0; j < outputs; ++j) {
    const std::size_t k = in_place && j == 0 ? 0 : memory.size() - outputs + j;
    const std::vector<std::byte> got = memory[k].get();
    const std::size_t begin = kGuard + offset(k);
    CHECK(firstDifference(type, got.data() + begin, expected.data(), count) == count);
    std::size_t touched = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      touched += (i < begin || i >= begin + bytes) && got[i] != kSentinel;
    CHECK(touched == 0);
  }
}

std::vector<std::vector<std::byte>> randomInputs(DataType type, std::size_t inputs,
                                                 std::size_t count) {
  Inputs source(type, static_cast<unsigned>(inputs + count));
  std::vector<std::vector<std::byte>> data;
  for (std::size_t k = 0; k < inputs; ++k) data.push_back(source.bytes(count));
  return data;
}

template <typename Body>
void forEachReduction(Body body) {
  for (DataType type : kDataTypes)
    for (ReduceOp op : kReduceOps)
      if (op.supports(type)) body(type, op.kind());
}

const auto kAligned = [](std::size_t) { return std::size_t{0}; };

} // namespace

TEST_CASE("without a GPU the look-up says what is missing") {
  if (noGpu().empty()) return;
  try {
    ReduceKernel(DataType::float32, ReduceOp::Kind::sum);
    FAIL("a kernel was found");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::unsupported);
    CHECK(std::string(error.what()).find("no GPU can be used") != std::string::npos);
  }
}

TEST_CASE("a bitwise operator on floats is refused") {
  try {
    ReduceKernel(DataType::float32, ReduceOp::Kind::bxor);
    FAIL("a kernel was found");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
  }
}

TEST_CASE("calls that a kernel cannot serve are refused") {
  NEEDS_GPU();
  const ReduceKernel kernel(DataType::float32, ReduceOp::Kind::sum);
  DeviceBytes memory(64);
  std::vector<void*> out(kernels::cuda::kMaxOutputs + 1, memory.data());
  std::vector<const void*> in(kernels::cuda::kMaxInputs + 1, memory.data());
  const std::span<void* const> one_out(out.data(), 1);
  const std::span<const void* const> one_in(in.data(), 1);
  for (const ReduceCall& call :
       {ReduceCall{.outputs = {}, .inputs = one_in, .count = 1},
        ReduceCall{.outputs = one_out, .inputs = {}, .count = 1},
        ReduceCall{.outputs = out, .inputs = one_in, .count = 1},
        ReduceCall{.outputs = one_out, .inputs = in, .count = 1},
        ReduceCall{.outputs = one_out, .inputs = one_in, .count = 1, .divisor = 0}}) {
    try {
      kernel.launch(call, nullptr);
      FAIL("launched");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
    }
  }
}

TEST_CASE("reductions on the GPU give the bits of the CPU's kernels") {
  NEEDS_GPU();
  const auto odd = [](std::size_t k) { return (k * 7 + 1) % 16; };
  forEachReduction([&](DataType type, ReduceOp::Kind kind) {
    // A tile of one block is 2048 vectors at most: several blocks, and all remainders.
    for (std::size_t count : {0, 1, 15, 16, 1000, 100003}) {
      const auto inputs = randomInputs(type, 3, count);
      compare(type, kind, inputs, 1, kAligned);
      compare(type, kind, inputs, 2, odd);
      compare(type, kind, inputs, 2, odd, true);
    }
    for (std::size_t inputs : {1, 2, 8, 64})
      compare(type, kind, randomInputs(type, inputs, 5000), 1, kAligned);
    compare(type, kind, randomInputs(type, 2, 5000), kernels::cuda::kMaxOutputs, kAligned);
    compare(type, kind, randomInputs(type, 70, 1000), 1, kAligned, false, true);
  });
}

TEST_CASE("every 8-bit pair and every 16-bit code on the GPU") {
  NEEDS_GPU();
  forEachReduction([&](DataType type, ReduceOp::Kind kind) {
    if (sizeOf(type) > 2) return;
    std::vector<std::vector<std::byte>> pairs(2, std::vector<std::byte>(65536 * sizeOf(type)));
    for (std::uint32_t a = 0; a < 65536; ++a) {
      setElement(pairs[0].data(), a, type, sizeOf(type) == 1 ? a & 0xff : a);
      setElement(pairs[1].data(), a, type, sizeOf(type) == 1 ? a >> 8 : (a * 40503u + 1) & 0xffff);
    }
    compare(type, kind, pairs, 1, kAligned);
    compare(type, kind, {pairs[0]}, 1, kAligned);
  });
}

TEST_CASE("a large reduction over the whole GPU") {
  NEEDS_GPU();
  for (DataType type : kDataTypes) {
    const std::size_t count = (std::size_t{32} << 20) / sizeOf(type) + 5;
    compare(type, ReduceOp::Kind::sum, randomInputs(type, 2, count), 1, kAligned, true);
  }
}

TEST_CASE("copies to one and several outputs", "[sanitize]") {
  NEEDS_GPU();
  const CopyKernel copy;
  for (std::size_t bytes : {0, 1, 15, 16, 100003, 1 << 22}) {
    const std::vector<std::byte> host = Inputs(DataType::uint8, 9).bytes(bytes);
    DeviceBytes from(host), a(bytes), b(bytes + 3);
    void* out[] = {a.data(), b.data() + 3};
    copy.launch(out, from.data(), bytes, nullptr);
    cuda(cudaDeviceSynchronize());
    INFO(bytes << " bytes");
    CHECK(a.get() == host);
    const std::vector<std::byte> shifted = b.get();
    CHECK(std::vector<std::byte>(shifted.begin() + 3, shifted.end()) == host);
  }
}

} // namespace rondo::test
