// Measures the throughput of the CUDA kernels, and, in the same run, of the device's own copy and
// of CUB. Reports bytes read and written per second, also as a share of what a device-to-device
// copy moves. Results are checked.
//   bench_cuda_kernels [--json FILE] [WORD]   all rows, or those whose name holds the word; also as
//                                             JSON with Google Benchmark's fields and of_copy
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/cuda/peers.h"
#include "kernels/cuda/reduce/reduce.h"
#include "kernels/reduce.h"

namespace rondo {
namespace {

using kernels::cuda::ReduceCall;
using kernels::cuda::ReduceKernel;

constexpr std::size_t kMiB = std::size_t{1} << 20;
/// Number of elements at each end of an output that are checked.
constexpr std::size_t kChecked = 4096;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

struct Free {
  void operator()(void* memory) const { cudaFree(memory); }
};
using Memory = std::unique_ptr<std::byte, Free>;

/// Device memory with bytes from 0x30 to 0x3f, which are small positive numbers in every float
/// type. Operands, and positions within one, differ from each other.
Memory allocate(std::size_t bytes) {
  static std::size_t seed = 0;
  constexpr std::size_t kPeriod = 1000003;
  std::vector<std::byte> pattern(kPeriod);
  for (std::size_t i = 0; i < kPeriod; ++i)
    pattern[i] = static_cast<std::byte>(0x30 + (i * 7 + i / 16 + seed) % 16);
  ++seed;
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes));
  Memory result(static_cast<std::byte*>(memory));
  for (std::size_t at = 0; at < bytes; at += kPeriod)
    check(cudaMemcpy(result.get() + at, pattern.data(), std::min(kPeriod, bytes - at),
                     cudaMemcpyHostToDevice));
  return result;
}

/// Median seconds per launch, from batches that take about 10 ms each.
double seconds(const std::function<void()>& launch) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  const auto batch = [&](int launches) {
    check(cudaEventRecord(begin, nullptr));
    for (int i = 0; i < launches; ++i) launch();
    check(cudaEventRecord(end, nullptr));
    check(cudaEventSynchronize(end));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end));
    return milliseconds / 1e3 / launches;
  };
  batch(3); // warm
  const int launches = std::clamp(static_cast<int>(0.01 / batch(3)), 1, 1000);
  std::vector<double> times(11);
  for (double& time : times) time = batch(launches);
  std::nth_element(times.begin(), times.begin() + 5, times.end());
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  return times[5];
}

class Bench {
 public:
  explicit Bench(std::string filter) : filter_(std::move(filter)) {
    cudaDeviceProp card;
    check(cudaGetDeviceProperties(&card, 0));
    card_ = card.name;
    const Memory from = allocate(256 * kMiB), to = allocate(256 * kMiB);
    const double time = seconds([&] {
      check(cudaMemcpyAsync(to.get(), from.get(), 256 * kMiB, cudaMemcpyDeviceToDevice, nullptr));
    });
    copy_ = 2.0 * 256 * kMiB / time;
    std::printf("%s, device-to-device copy of 256 MiB: %.0f GB/s read and written\n", card.name,
                copy_ / 1e9);
    std::printf("%-44s %10s %10s %8s %6s\n", "kernel", "MiB moved", "us", "GB/s", "of copy");
  }

  bool wants(const std::string& name) const { return name.find(filter_) != std::string::npos; }

  void row(const std::string& name, std::size_t bytes, const std::function<void()>& launch) {
    const double time = seconds(launch);
    const double rate = static_cast<double>(bytes) / time;
    rows_.push_back({{"name", name},
                     {"real_time", time * 1e6},
                     {"time_unit", "us"},
                     {"bytes_per_second", rate},
                     {"of_copy", rate / copy_}});
    std::printf("%-44s %10.2f %10.2f %8.1f %5.1f%%\n", name.c_str(),
                static_cast<double>(bytes) / kMiB, time * 1e6, rate / 1e9, 100 * rate / copy_);
    std::fflush(stdout);
  }

  nlohmann::json json() const {
    return {{"context", {{"device", card_}, {"copy_bytes_per_second", copy_}}},
            {"benchmarks", rows_}};
  }

 private:
  std::string filter_, card_;
  nlohmann::json rows_ = nlohmann::json::array();
  double copy_ = 1;
};

struct Shape {
  DataType type;
  ReduceOp::Kind kind;
  std::size_t inputs, outputs, bytes;
  std::size_t offset = 0; ///< bytes by which the first input is misaligned
  bool in_place = false;
};

/// Compares the first and last elements of an output with the CPU kernels' result.
void verify(const Shape& shape, const std::vector<const void*>& inputs, const void* output) {
  const std::size_t count = shape.bytes / sizeOf(shape.type);
  const std::size_t some = std::min(count, kChecked), bytes = some * sizeOf(shape.type);
  for (const std::size_t begin : {std::size_t{0}, (count - some) * sizeOf(shape.type)}) {
    std::vector<std::vector<std::byte>> host(inputs.size() + 2, std::vector<std::byte>(bytes));
    std::vector<const void*> in;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      check(cudaMemcpy(host[k].data(), static_cast<const std::byte*>(inputs[k]) + begin, bytes,
                       cudaMemcpyDeviceToHost));
      in.push_back(host[k].data());
    }
    void* out[] = {host[inputs.size()].data()};
    kernels::reduceFunction(shape.type, shape.kind)(out, 1, in.data(), in.size(), some);
    std::byte* got = host.back().data();
    check(cudaMemcpy(got, static_cast<const std::byte*>(output) + begin, bytes,
                     cudaMemcpyDeviceToHost));
    if (std::memcmp(got, out[0], bytes) != 0) throw std::runtime_error("wrong result");
  }
}

std::string sizeText(std::size_t bytes) {
  if (bytes >= kMiB) return std::to_string(bytes / kMiB) + " MiB";
  return bytes >= 1024 ? std::to_string(bytes / 1024) + " KiB" : std::to_string(bytes) + " B";
}

void reduce(Bench& bench, const std::string& label, const Shape& shape) {
  const std::string name = "reduce " + std::string(traits(shape.type).numpy) + " " + label + " " +
                           std::to_string(shape.inputs) + " to " + std::to_string(shape.outputs) +
                           (shape.offset ? " off " + std::to_string(shape.offset) : "") +
                           (shape.in_place ? " in place" : "") + ", " + sizeText(shape.bytes);
  if (!bench.wants(name)) return;
  std::vector<Memory> memory;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (std::size_t k = 0; k < shape.inputs; ++k) {
    memory.push_back(allocate(shape.bytes + 16));
    inputs.push_back(memory.back().get() + (k == 0 ? shape.offset : 0));
  }
  for (std::size_t j = 0; j < shape.outputs; ++j) {
    memory.push_back(allocate(shape.bytes + 16));
    outputs.push_back(memory.back().get());
  }
  const ReduceKernel kernel(shape.type, shape.kind);
  ReduceCall call{.outputs = outputs, .inputs = inputs, .count = shape.bytes / sizeOf(shape.type)};
  kernel.launch(call, nullptr);
  for (void* output : outputs) verify(shape, inputs, output);
  const std::size_t moved = (shape.inputs + shape.outputs) * shape.bytes;
  const auto peer = cubSum(shape.type, inputs, outputs[0], call.count);
  if (peer && shape.kind == ReduceOp::Kind::sum && shape.outputs == 1 && !shape.in_place) {
    check(cudaMemset(outputs[0], 0xee, shape.bytes));
    peer();
    verify(shape, inputs, outputs[0]);
    bench.row("cub, " + name, moved, peer);
  }
  if (shape.in_place) outputs[0] = const_cast<void*>(inputs[0]);
  bench.row(name, moved, [&] { kernel.launch(call, nullptr); });
}

void all(Bench& bench) {
  using Kind = ReduceOp::Kind;
  const auto sum = [&](const Shape& shape) { reduce(bench, "sum", shape); };
  for (std::size_t inputs : {2, 4, 8})
    for (DataType type : {DataType::float32, DataType::bfloat16})
      sum({type, Kind::sum, inputs, 1, 256 * kMiB});
  reduce(bench, "copy", {DataType::uint8, Kind::bor, 1, 1, 256 * kMiB});
  for (DataType type : kDataTypes) sum({type, Kind::sum, 2, 1, 64 * kMiB});
  for (DataType type : {DataType::float32, DataType::bfloat16, DataType::float8e4m3})
    for (Kind kind : {Kind::max, Kind::premul_sum})
      reduce(bench, kind == Kind::max ? "max" : "scaled sum", {type, kind, 2, 1, 64 * kMiB});
  for (DataType type : {DataType::float32, DataType::bfloat16}) {
    sum({type, Kind::sum, 2, 2, 64 * kMiB});
    sum({type, Kind::sum, 2, 1, 64 * kMiB, 4});
    sum({type, Kind::sum, 2, 1, 64 * kMiB, 0, true});
  }
  for (std::size_t bytes : {std::size_t{8}, 64 * kMiB / 1024, kMiB, 8 * kMiB})
    sum({DataType::float32, Kind::sum, 2, 1, bytes});
}

} // namespace
} // namespace rondo

int main(int argc, char** argv) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "bench_cuda_kernels: no GPU: %s\n", cudaGetErrorString(status));
    return 1;
  }
  std::string report, filter;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json" && i + 1 < argc) report = argv[++i];
    else filter = word;
  }
  try {
    rondo::Bench bench(filter);
    // Results before an error are written too.
    const auto write = [&] {
      if (!report.empty() && !(std::ofstream(report) << bench.json().dump(1) << '\n'))
        throw std::runtime_error(report + " cannot be written");
    };
    try {
      rondo::all(bench);
    } catch (...) {
      write();
      throw;
    }
    write();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_cuda_kernels: %s\n", error.what());
    return 1;
  }
}
