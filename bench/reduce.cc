// Measures the throughput of the reduction kernels, and of memcpy for comparison. bytes_per_second
// counts one operand.
//   bench_reduce --benchmark_filter=float
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/reduce.h"

namespace rondo {
namespace {

/// Names for the rows. The library's name() is not available here.
constexpr const char* kOpNames[ReduceOp::kKindCount] = {"sum",  "prod", "min",  "max",      "avg",
                                                        "band", "bor",  "bxor", "premulsum"};

struct Shape {
  DataType type;
  ReduceOp::Kind op;
  std::size_t inputs, outputs;
  bool in_place = false;
  std::size_t offset = 0; ///< bytes from a cache line's begin
};

/// `count` buffers of `bytes`, each `offset` bytes after the begin of a cache line. Each has a
/// different distance from the begin of its page: with equal distances, loads would wait for stores
/// to other addresses with the same low bits.
class Buffers {
 public:
  Buffers(std::size_t count, std::size_t bytes, std::size_t offset) {
    const std::size_t stride = (bytes + 2 * kPage - 1) / kPage * kPage + 3 * kLine;
    memory_.resize(count * stride + kPage, std::byte{1});
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    std::byte* first = memory_.data() + (kPage - address % kPage) + offset;
    for (std::size_t k = 0; k < count; ++k) starts_.push_back(first + k * stride);
  }
  std::byte* operator[](std::size_t k) const { return starts_[k]; }

 private:
  static constexpr std::size_t kPage = 4096, kLine = 64;
  std::vector<std::byte> memory_;
  std::vector<std::byte*> starts_;
};

void reduce(benchmark::State& state, const Shape& shape) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffers buffers(shape.inputs + shape.outputs, bytes, shape.offset);
  std::vector<const void*> sources;
  std::vector<void*> targets;
  for (std::size_t k = 0; k < shape.inputs; ++k) sources.push_back(buffers[k]);
  for (std::size_t j = 0; j < shape.outputs; ++j) targets.push_back(buffers[shape.inputs + j]);
  if (shape.in_place) targets[0] = buffers[0];
  const kernels::ReduceFunction function = kernels::reduceFunction(shape.type, shape.op);
  for (auto _ : state) {
    function(targets.data(), targets.size(), sources.data(), sources.size(),
             bytes / sizeOf(shape.type));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
  state.SetLabel(std::string(kernels::instructionSet()));
}

void copy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffers both(2, bytes, 0);
  for (auto _ : state) {
    std::memcpy(both[1], both[0], bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

void scale(benchmark::State& state, DataType type) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffers data(1, bytes, 0);
  for (auto _ : state) {
    kernels::scaleFunction(type)(data[0], data[0], bytes / sizeOf(type), 1.0);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

void add(const Shape& shape) {
  const std::string name = std::string("reduce/") + std::string(traits(shape.type).numpy) + "/" +
                           kOpNames[static_cast<std::size_t>(shape.op)] + "/" +
                           std::to_string(shape.inputs) + "to" + std::to_string(shape.outputs) +
                           (shape.in_place ? "/in_place" : "") +
                           (shape.offset ? "/off" + std::to_string(shape.offset) : "");
  benchmark::RegisterBenchmark(name.c_str(), [shape](benchmark::State& s) { reduce(s, shape); })
      ->Arg(8)
      ->Arg(64 << 10)
      ->Arg(1 << 20)
      ->Arg(16 << 20);
}

const bool registered = [] {
  benchmark::RegisterBenchmark("memcpy", copy)->Arg(8)->Arg(64 << 10)->Arg(1 << 20)->Arg(16 << 20);
  for (DataType type : kDataTypes) {
    if (type != DataType::float32) add({type, ReduceOp::Kind::sum, 2, 1});
    benchmark::RegisterBenchmark((std::string("scale/") + std::string(traits(type).numpy)).c_str(),
                                 [type](benchmark::State& s) { scale(s, type); })
        ->Arg(64 << 10);
  }
  for (DataType type : {DataType::int8, DataType::int64, DataType::float32, DataType::float16})
    for (ReduceOp::Kind op : {ReduceOp::Kind::prod, ReduceOp::Kind::max}) add({type, op, 2, 1});
  for (std::size_t offset : {0, 16}) {
    add({DataType::float32, ReduceOp::Kind::sum, 2, 1, true, offset});
    add({DataType::float32, ReduceOp::Kind::sum, 2, 1, false, offset});
  }
  for (std::size_t inputs : {1, 3, 4, 8}) add({DataType::float32, ReduceOp::Kind::sum, inputs, 1});
  for (std::size_t inputs : {1, 2}) add({DataType::float32, ReduceOp::Kind::sum, inputs, 2});
  return true;
}();

} // namespace
} // namespace rondo
