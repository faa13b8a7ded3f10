// What all layers of one compiled network (layers/program.h) share on a GPU: the device, its
// stream, library handles and memory.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "train/layers/cudnn/handles.h"
#include "train/layers/cudnn/program.h"
#include "train/layers/program.h"

namespace rondo::training::cudnn {

/// Values on the device, [count x channels x height x width].
struct Tensor {
  float* data = nullptr; ///< null: no tensor
  SampleShape shape{};

  explicit operator bool() const { return data != nullptr; }
};

class Delivery;
class Statistic;

/// All work of a program is on one stream, so it runs in the order of the calls. Each program has
/// its own library handles: results of cuBLAS are reproducible only if all work of a handle is on
/// one stream. One thread at a time. A pass must call begin() or use() first.
class Site {
 public:
  Site(const Binding& binding, const Gpu& gpu);
  ~Site();
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  const Binding& binding() const { return binding_; }
  cudaStream_t stream() const { return stream_.get(); }
  cublasHandle_t blas() const { return blas_.get(); }
  cudnnHandle_t dnn() const { return dnn_.get(); }

  /// Makes the device the current device of this thread.
  void use() const;
  /// Calls use() and begins a pass. If an error ended the previous pass, waits for its remaining
  /// work, which may still read host memory that this pass writes, and drops its gradients and
  /// statistics.
  void begin();
  /// Ends the pass, which has waited for the stream: takes over its statistics.
  void end();
  /// Waits until all work on the stream has completed. Throws Error(timeout), which names the work
  /// by `what` and `whose`.
  void wait(std::string_view what, std::string_view whose = {}) const;
  void wait(cudaEvent_t event, std::string_view what, std::string_view whose) const;
  /// Whether work is still running on the device that a program of this process stopped waiting
  /// for. Freeing device memory or library handles would wait for that work. Call use() first.
  bool stuck() const;

  /// Uninitialised memory, freed with its owner.
  template <class Value>
  OnDevice<Value> onDevice(std::size_t count) const {
    void* memory = nullptr;
    check(cudaMalloc(&memory, count * sizeof(Value)), "cudaMalloc");
    return OnDevice<Value>(static_cast<Value*>(memory));
  }
  template <class Value>
  Pinned<Value> pinned(std::size_t count) const {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, count * sizeof(Value), 0), "cudaHostAlloc");
    return Pinned<Value>(static_cast<Value*>(memory));
  }
  /// A tensor for the program's samples, which lives as long as the site.
  Tensor tensor(const SampleShape& shape);
  std::size_t size(const Tensor& tensor) const { return binding_.count * tensor.shape.size(); }
  Description description(const SampleShape& shape, std::size_t samples) const;
  static Event event();

  /// Provides at least `bytes` of scratch memory, which all calls of the program share, because
  /// they run one after the other. Only while layers are built; the memory may move.
  void reserve(std::size_t bytes);
  void* workspace() const { return workspace_.get(); }
  std::size_t workspaceBytes() const { return workspace_bytes_; }

  template <class Value>
  void copy(Value* to, const Value* from, std::size_t count, cudaMemcpyKind kind) const {
    check(cudaMemcpyAsync(to, from, count * sizeof(Value), kind, stream()), "cudaMemcpyAsync");
  }

  /// Adds a gradient that is being copied to the host.
  void add(Delivery& delivery) { deliveries_.push_back(&delivery); }
  /// Waits for each of these gradients, in the order of the calls, and calls `ready` for it.
  void deliver(const GradientReady& ready);
  /// Adds statistics that are being copied to the host; they arrive at end().
  void add(Statistic& statistic) { statistics_.push_back(&statistic); }

 private:
  void noteOverdue() const;

  Binding binding_;
  Gpu gpu_;
  Stream stream_;
  Event reached_; ///< the event that wait() records
  Blas blas_;
  Dnn dnn_;
  std::vector<OnDevice<float>> tensors_;
  OnDevice<std::byte> workspace_;
  std::size_t workspace_bytes_ = 0;
  std::vector<Delivery*> deliveries_;
  std::vector<Statistic*> statistics_;
  bool under_way_ = false; ///< during a pass
};

} // namespace rondo::training::cudnn
