// A fake machine with GPUs under the library, and ranks on it, each with a stream of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda/device.h"
#include "device/cuda/fake/fake.h"
#include "device/device.h"
#include "rondo/error.h"
#include "rondo/rondo.h"
#include "support/collective_case.h"
#include "support/ranks.h"

namespace rondo::test {

inline void must(cudaError_t status) {
  if (status != cudaSuccess) throw Error(ErrorCode::system, cudaGetErrorString(status));
}

/// Outlives the communicators.
class CudaMachine {
 public:
  explicit CudaMachine(const FakeCuda::Settings& settings = {}) : cuda(settings) {
    device::replaceDevices([](int number) { return device::openCudaDevice(number); });
  }
  ~CudaMachine() { device::replaceDevices({}); }

  /// The complaints, one on each line.
  std::string complaints() const {
    std::string text;
    for (const std::string& one : cuda.complaints()) text += one + "\n";
    return text;
  }

  mutable FakeCuda cuda;
};

class CudaStream {
 public:
  explicit CudaStream(unsigned flags = cudaStreamNonBlocking, int device = 0) : device_(device) {
    must(cudaSetDevice(device));
    must(cudaStreamCreateWithFlags(&stream_, flags));
  }
  ~CudaStream() {
    cudaSetDevice(device_);
    cudaStreamDestroy(stream_);
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t get() const { return stream_; }
  Stream handle() const { return Stream(stream_); }

 private:
  const int device_;
  cudaStream_t stream_ = nullptr;
};

inline constexpr std::size_t kCount = 20'000;

/// A buffer that devices see; all elements are 1.
class Numbers {
 public:
  Numbers() : values_(kCount, 1) {
    must(cudaHostRegister(values_.data(), kCount * sizeof(float), 0));
  }
  ~Numbers() { cudaHostUnregister(values_.data()); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  float* data() { return values_.data(); }
  bool all(float value) const { return std::vector<float>(kCount, value) == values_; }

 private:
  std::vector<float> values_;
};

inline Work addUp(Communicator& comm, Numbers& numbers, std::size_t count = kCount) {
  return comm.allReduceAsync(numbers.data(), numbers.data(), count, DataType::float32,
                             ReduceOp::sum);
}

/// Runs a case on this rank, with buffers that the device sees.
inline std::string runCase(const CollectiveCase& one, Communicator& comm) {
  const CollectiveBuffers buffers(one, comm.rank(), comm.size());
  for (const auto& part : buffers.memory())
    if (!part.empty()) must(cudaHostRegister(part.data(), part.size(), 0));
  one.start(comm, buffers.input(), buffers.output()).wait();
  for (const auto& part : buffers.memory())
    if (!part.empty()) must(cudaHostUnregister(part.data()));
  return buffers.wrong();
}

/// Runs the cases on all ranks. Rank r uses device r modulo the number of devices, with a stream
/// and a thread of its own. The thread sets its device as a program does.
inline std::string runCases(int ranks, int devices, Options options,
                            const std::vector<CollectiveCase>& cases) {
  const Rendezvous meet = Rendezvous::inProcess(ranks);
  std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank, options]() mutable {
        try {
          options.device = rank % devices;
          const CudaStream stream(cudaStreamNonBlocking, options.device);
          Communicator comm = Communicator::create(meet.as(rank), options);
          comm.setStream(stream.handle());
          for (const CollectiveCase& one : cases)
            if (std::string what = runCase(one, comm); !what.empty())
              wrong[static_cast<std::size_t>(rank)] = what;
        } catch (const std::exception& error) {
          wrong[static_cast<std::size_t>(rank)] = error.what();
        }
      });
  }
  return firstComplaint(wrong);
}

} // namespace rondo::test
