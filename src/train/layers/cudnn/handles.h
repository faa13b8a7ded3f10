// Owns the objects of CUDA's libraries, and converts their errors to rondo::Error.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstddef>
#include <memory>
#include <string>

#include "rondo/error.h"

namespace rondo::training::cudnn {

/// Throws Error(system) with the name of the function and its error text.
[[noreturn]] inline void refuse(const char* function, const char* words) {
  throw Error(ErrorCode::system, std::string(function) + ": " + words);
}
inline void check(cudaError_t status, const char* function) {
  if (status == cudaSuccess) return;
  cudaGetLastError(); // clears the error, which the next call's check would return again
  refuse(function, cudaGetErrorString(status));
}
inline void check(cublasStatus_t status, const char* function) {
  if (status != CUBLAS_STATUS_SUCCESS) refuse(function, cublasGetStatusString(status));
}
inline void check(cudnnStatus_t status, const char* function) {
  if (status != CUDNN_STATUS_SUCCESS) refuse(function, cudnnGetErrorString(status));
}

template <auto kDestroy>
struct Destroy {
  template <class Object>
  void operator()(Object* object) const {
    kDestroy(object); // errors are ignored: a destructor cannot report them
  }
};
template <class Handle, auto kDestroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<kDestroy>>;

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using Blas = Owned<cublasHandle_t, cublasDestroy>;
using Dnn = Owned<cudnnHandle_t, cudnnDestroy>;
using Description = Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using Activation = Owned<cudnnActivationDescriptor_t, cudnnDestroyActivationDescriptor>;
using Filter = Owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using Correlation = Owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;
using Addition = Owned<cudnnOpTensorDescriptor_t, cudnnDestroyOpTensorDescriptor>;
using Pooling = Owned<cudnnPoolingDescriptor_t, cudnnDestroyPoolingDescriptor>;
template <class Value>
using OnDevice = std::unique_ptr<Value, Destroy<cudaFree>>;
template <class Value>
using Pinned = std::unique_ptr<Value, Destroy<cudaFreeHost>>;

/// Returns the object that make(&handle) creates.
template <class Handle, class Make>
Handle made(Make make, const char* function) {
  typename Handle::pointer handle = nullptr;
  check(make(&handle), function);
  return Handle(handle);
}

/// Converts a size to the type of the libraries.
inline int dim(std::size_t size) { return static_cast<int>(size); }

} // namespace rondo::training::cudnn
