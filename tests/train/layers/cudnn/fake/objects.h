// Shared by the fakes of cuDNN and cuBLAS: their objects, the beginning of their calls, and checks
// of the memory that they are given.
#pragma once

#include <cublas_v2.h>
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

struct cublasContext {
  cudaStream_t stream = nullptr;
  bool pedantic = false;
};
struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  int n = 0, c = 0, h = 0, w = 0;

  int places() const { return h * w; }
  int size() const { return n * c * places(); }
  /// One value for each channel, for one sample.
  bool isPerChannel(int channels) const { return n == 1 && c == channels && places() == 1; }
  bool operator==(const cudnnTensorStruct&) const = default;
};
struct cudnnActivationStruct {
  bool relu = false;
};
struct cudnnFilterStruct {
  int k = 0, c = 0, h = 0, w = 0;
  int size() const { return k * c * h * w; }
};
struct cudnnConvolutionStruct {
  int padding_h = 0, padding_w = 0, stride_h = 0, stride_w = 0;
  bool floats = false; ///< multiplies in full float32
};
struct cudnnOpTensorStruct {
  bool adds = false;
};
struct cudnnPoolingStruct {
  cudnnPoolingMode_t mode{};
  int h = 0, w = 0, padding_h = 0, padding_w = 0, stride_h = 0, stride_w = 0;
};

namespace rondo::test::fake_libraries {

/// Whether calls of the function must fail.
bool fails(const std::string& function);
cublasStatus_t blas(const char* function);
cudnnStatus_t dnn(const char* function);

void note(const std::string& kind, int change);
template <class Handle>
void make(Handle* to, const char* kind) {
  *to = new std::remove_pointer_t<Handle>;
  note(kind, 1);
}
template <class Handle>
void destroy(Handle handle, const char* kind) {
  note(kind, -1);
  delete handle;
}

/// Defines the functions that make and destroy such descriptors.
#define FAKE_DESCRIPTOR(Type, kind)                                                          \
  cudnnStatus_t CUDNNWINAPI cudnnCreate##Type##Descriptor(cudnn##Type##Descriptor_t* made) { \
    make(made, kind);                                                                        \
    return CUDNN_STATUS_SUCCESS;                                                             \
  }                                                                                          \
  cudnnStatus_t CUDNNWINAPI cudnnDestroy##Type##Descriptor(cudnn##Type##Descriptor_t made) { \
    destroy(made, kind);                                                                     \
    return CUDNN_STATUS_SUCCESS;                                                             \
  }

/// Called for handles and descriptors; `floats` is false if one allows products in less than
/// float32.
void notePrecision(bool floats);

/// Queues the work on the stream.
void put(cudaStream_t stream, std::function<void()> run);

/// Waits for all work on the current device, if the fake driver is pessimistic.
void waitForDevice(const char* function);

/// A memory argument of a call.
struct Memory {
  const void* at;
  std::size_t bytes;
};
inline Memory floats(const void* at, int count) {
  return {at, static_cast<std::size_t>(count) * sizeof(float)};
}
/// Returns whether all memory is on the current device and written memory overlaps no other.
/// Otherwise records a complaint that names the function.
bool present(const char* function, const std::vector<Memory>& read,
             const std::vector<Memory>& written);

inline float scalar(const void* at) { return *static_cast<const float*>(at); }
inline const float* in(const void* at) { return static_cast<const float*>(at); }
inline float* out(void* at) { return static_cast<float*>(at); }

/// With beta 0 the old value is not read: it may be uninitialised.
inline void blend(float& to, float alpha, float value, float beta) {
  to = alpha * value + (beta == 0 ? 0 : beta * to);
}

} // namespace rondo::test::fake_libraries
