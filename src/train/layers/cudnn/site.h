// Where a program's layers are built and run: a device, a stream, the libraries on it, memory.
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
  float* data = nullptr; ///< null: there is none
  SampleShape shape{};

  explicit operator bool() const { return data != nullptr; }
};

class Delivery;
class Statistic;

/// All work of a program is on one stream, so it runs in the order in which it was asked for. Each
/// program has the libraries to itself: results of cuBLAS are the same from run to run only for a
/// handle whose work stays on one stream. One thread at a time, and use() before all else in a
/// pass.
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

  /// The device is this thread's current one from then on.
  void use() const;
  /// use(), for a pass. What is left of one that an error ended is waited for, since host memory is
  /// to be written that it may read; its gradients and statistics are forgotten.
  void begin();
  /// The pass is over, and has waited for the stream: statistics are taken.
  void end();
  /// Until all that is on the stream is done. Throws Error(timeout), which names what was waited
  /// for: `what`, and whose.
  void wait(std::string_view what, std::string_view whose = {}) const;
  void wait(cudaEvent_t event, std::string_view what, std::string_view whose) const;
  /// Whether work on the device still runs that some program of this process has not waited for to
  /// its end. What frees memory there, or the libraries' handles, would wait for it as well. Behind
  /// use().
  bool stuck() const;

  /// Uninitialised, freed with its owner.
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
  /// For the program's samples; lives as long as the site.
  Tensor tensor(const SampleShape& shape);
  std::size_t size(const Tensor& tensor) const { return binding_.count * tensor.shape.size(); }
  Description description(const SampleShape& shape, std::size_t samples) const;
  static Event event();

  /// Scratch memory that all calls of the program share, one behind the other on its stream: at
  /// least so many bytes. While layers are built; it may move.
  void reserve(std::size_t bytes);
  void* workspace() const { return workspace_.get(); }
  std::size_t workspaceBytes() const { return workspace_bytes_; }

  template <class Value>
  void copy(Value* to, const Value* from, std::size_t count, cudaMemcpyKind kind) const {
    check(cudaMemcpyAsync(to, from, count * sizeof(Value), kind, stream()), "cudaMemcpyAsync");
  }

  /// Gradients on their way to the host, in the order in which they were asked for.
  void add(Delivery& delivery) { deliveries_.push_back(&delivery); }
  /// Waits for each of them, and says so.
  void deliver(const GradientReady& ready);
  /// Statistics on their way to the host, until end().
  void add(Statistic& statistic) { statistics_.push_back(&statistic); }

 private:
  void noteOverdue() const;

  Binding binding_;
  Gpu gpu_;
  Stream stream_;
  Event reached_; ///< what wait() waits for
  Blas blas_;
  Dnn dnn_;
  std::vector<OnDevice<float>> tensors_;
  OnDevice<std::byte> workspace_;
  std::size_t workspace_bytes_ = 0;
  std::vector<Delivery*> deliveries_;
  std::vector<Statistic*> statistics_;
  bool under_way_ = false; ///< a pass
};

} // namespace rondo::training::cudnn
