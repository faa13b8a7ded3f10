// GPUs by the CUDA runtime; in a build without CUDA only the error that says what is missing.
#include "tools/gpu.h"

#include "rondo/error.h"

#if defined(RONDO_HAVE_CUDA)
#include <cuda_runtime_api.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

namespace rondo::tools {

namespace {

/// Above the default of Options::timeout, so that the library's own error, which says more,
/// comes first.
constexpr std::chrono::seconds kLongest{150};

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

class CudaGpu final : public Gpu {
 public:
  CudaGpu(int number, std::string name) : number_(number), name_(std::move(name)) {
    use();
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "no stream on the GPU");
  }
  ~CudaGpu() override {
    cudaSetDevice(number_);
    if (graph_) cudaGraphExecDestroy(graph_);
    for (const auto& events : {marks_, spare_})
      for (cudaEvent_t event : events) cudaEventDestroy(event);
    cudaStreamDestroy(stream_);
  }
  CudaGpu(const CudaGpu&) = delete;
  CudaGpu& operator=(const CudaGpu&) = delete;

  std::string name() const override { return name_; }

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    use();
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "no memory on the GPU");
    return {static_cast<std::byte*>(memory), [number = number_](std::byte* at) {
              cudaSetDevice(number);
              cudaFree(at);
            }};
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    use();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "the copy failed");
    check(cudaStreamSynchronize(stream_), "work on the GPU failed");
  }

  Stream stream() const override { return Stream(stream_); }
  void mark() override {
    use();
    if (spare_.empty()) {
      spare_.emplace_back();
      check(cudaEventCreate(&spare_.back()), "no event");
    }
    check(cudaEventRecord(spare_.back(), stream_), "the event cannot be recorded");
    marks_.push_back(spare_.back());
    spare_.pop_back();
    // If the queue of launches were full, a launch would wait, perhaps for a rank that then
    // cannot launch.
    if (marks_.size() > kAhead) await(marks_[marks_.size() - 1 - kAhead]);
  }
  std::vector<double> times() override {
    use();
    for (cudaEvent_t event : marks_) await(event);
    std::vector<double> all;
    for (std::size_t i = 1; i < marks_.size(); ++i) {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, marks_[i - 1], marks_[i]),
            "the events have no times");
      all.push_back(1000.0 * static_cast<double>(milliseconds));
    }
    spare_.insert(spare_.end(), marks_.begin(), marks_.end());
    marks_.clear();
    return all;
  }

  /// Captures the calls of this thread only; other ranks' threads may go on.
  void beginGraph() override {
    use();
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
          "the stream cannot be captured");
  }
  void endGraph() override {
    use();
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph), "the capture cannot be ended");
    if (graph_) cudaGraphExecDestroy(std::exchange(graph_, nullptr));
    const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "the graph cannot be run");
    check(cudaGraphUpload(graph_, stream_), "the graph cannot be uploaded");
    check(cudaStreamSynchronize(stream_), "work on the GPU failed");
  }
  void replay() override {
    use();
    check(cudaGraphLaunch(graph_, stream_), "the graph was not launched");
  }

 private:
  void use() const { check(cudaSetDevice(number_), "the GPU cannot be used"); }

  static constexpr std::size_t kAhead = 8; ///< most marks that the stream may still have to pass

  static void await(cudaEvent_t event) {
    const auto until = std::chrono::steady_clock::now() + kLongest;
    for (;;) {
      const cudaError_t status = cudaEventQuery(event);
      if (status != cudaErrorNotReady) return check(status, "work on the GPU failed");
      cudaGetLastError(); // "not ready" is no error
      if (std::chrono::steady_clock::now() > until)
        throw std::runtime_error("the GPU's stream makes no progress");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  const int number_;
  const std::string name_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  std::vector<cudaEvent_t> marks_, spare_;
};

} // namespace

std::unique_ptr<Gpu> openGpu(int number) {
  int gpus = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&gpus); status != cudaSuccess) {
    cudaGetLastError();
    throw Error(ErrorCode::unsupported, std::string("device cuda: no GPU can be used (") +
                                            cudaGetErrorString(status) + ")");
  }
  if (number >= gpus)
    throw Error(ErrorCode::unsupported, "device cuda: GPU " + std::to_string(number) +
                                            " is wanted, of " + std::to_string(gpus) +
                                            " (--ranks-per-gpu puts several ranks on one)");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, number), "the GPU's properties cannot be read");
  return std::make_unique<CudaGpu>(number, properties.name);
}

} // namespace rondo::tools

#else

namespace rondo::tools {

std::unique_ptr<Gpu> openGpu(int) {
  throw Error(ErrorCode::unsupported,
              "device cuda: this build has no CUDA (" RONDO_CUDA_MISSING ")");
}

} // namespace rondo::tools

#endif
