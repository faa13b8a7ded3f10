// The part of cuDNN that the layers call, declared for builds without it. Where a toolkit is found,
// the fake is compiled against its headers too.
#pragma once

#include <cuda_runtime_api.h>

#define CUDNNWINAPI

using cudnnHandle_t = struct cudnnContext*;
using cudnnTensorDescriptor_t = struct cudnnTensorStruct*;
using cudnnActivationDescriptor_t = struct cudnnActivationStruct*;
enum cudnnStatus_t {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_EXECUTION_FAILED = 5000,
};
enum cudnnTensorFormat_t { CUDNN_TENSOR_NCHW = 0 };
enum cudnnDataType_t { CUDNN_DATA_FLOAT = 0 };
enum cudnnActivationMode_t { CUDNN_ACTIVATION_RELU = 1 };
enum cudnnNanPropagation_t { CUDNN_NOT_PROPAGATE_NAN = 0, CUDNN_PROPAGATE_NAN = 1 };

extern "C" {
const char* cudnnGetErrorString(cudnnStatus_t status);
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* made);
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t made);
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t to, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w);
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* made);
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t made);
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t to,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                           double coefficient);
cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha,
                             const cudnnTensorDescriptor_t a_as, const void* a, const void* beta,
                             const cudnnTensorDescriptor_t c_as, void* c);
cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
                                     const void* alpha, const cudnnTensorDescriptor_t x_as,
                                     const void* x, const void* beta,
                                     const cudnnTensorDescriptor_t y_as, void* y);
cudnnStatus_t cudnnActivationBackward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
                                      const void* alpha, const cudnnTensorDescriptor_t y_as,
                                      const void* y, const cudnnTensorDescriptor_t dy_as,
                                      const void* dy, const cudnnTensorDescriptor_t x_as,
                                      const void* x, const void* beta,
                                      const cudnnTensorDescriptor_t dx_as, void* dx);
cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void* alpha,
                                           const cudnnTensorDescriptor_t dy_as, const void* dy,
                                           const void* beta, const cudnnTensorDescriptor_t db_as,
                                           void* db);
}
