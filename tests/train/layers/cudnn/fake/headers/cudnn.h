// Declares the part of cuDNN that the layers call, for builds without it. Where a toolkit is found,
// the fake is also compiled against its headers.
#pragma once

#include <cuda_runtime_api.h>

#define CUDNNWINAPI

using cudnnHandle_t = struct cudnnContext*;
using cudnnTensorDescriptor_t = struct cudnnTensorStruct*;
using cudnnActivationDescriptor_t = struct cudnnActivationStruct*;
using cudnnFilterDescriptor_t = struct cudnnFilterStruct*;
using cudnnConvolutionDescriptor_t = struct cudnnConvolutionStruct*;
using cudnnOpTensorDescriptor_t = struct cudnnOpTensorStruct*;
using cudnnPoolingDescriptor_t = struct cudnnPoolingStruct*;
enum cudnnStatus_t {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_EXECUTION_FAILED = 5000,
};
enum cudnnTensorFormat_t { CUDNN_TENSOR_NCHW = 0 };
enum cudnnDataType_t { CUDNN_DATA_FLOAT = 0 };
enum cudnnActivationMode_t { CUDNN_ACTIVATION_RELU = 1 };
enum cudnnNanPropagation_t { CUDNN_NOT_PROPAGATE_NAN = 0, CUDNN_PROPAGATE_NAN = 1 };
enum cudnnMathType_t { CUDNN_DEFAULT_MATH = 0, CUDNN_FMA_MATH = 3 };
enum cudnnConvolutionMode_t { CUDNN_CROSS_CORRELATION = 1 };
enum cudnnConvolutionFwdAlgo_t { CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1 };
enum cudnnConvolutionBwdDataAlgo_t { CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1 };
enum cudnnConvolutionBwdFilterAlgo_t { CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1 };
enum cudnnOpTensorOp_t { CUDNN_OP_TENSOR_ADD = 0 };
enum cudnnBatchNormMode_t { CUDNN_BATCHNORM_SPATIAL = 1 };
enum cudnnPoolingMode_t {
  CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING = 1,
  CUDNN_POOLING_MAX_DETERMINISTIC = 3,
};

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
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* made);
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t made);
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t to, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w);
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* made);
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t made);
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t to, int pad_h, int pad_w,
                                              int u, int v, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t type);
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t to, cudnnMathType_t type);
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x_as, const cudnnFilterDescriptor_t w_as,
    const cudnnConvolutionDescriptor_t moved, const cudnnTensorDescriptor_t y_as,
    cudnnConvolutionFwdAlgo_t algo, size_t* bytes);
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w_as, const cudnnTensorDescriptor_t dy_as,
    const cudnnConvolutionDescriptor_t moved, const cudnnTensorDescriptor_t dx_as,
    cudnnConvolutionBwdDataAlgo_t algo, size_t* bytes);
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x_as, const cudnnTensorDescriptor_t dy_as,
    const cudnnConvolutionDescriptor_t moved, const cudnnFilterDescriptor_t dw_as,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t* bytes);
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t x_as, const void* x,
                                      const cudnnFilterDescriptor_t w_as, const void* w,
                                      const cudnnConvolutionDescriptor_t moved,
                                      cudnnConvolutionFwdAlgo_t algo, void* workspace,
                                      size_t workspace_bytes, const void* beta,
                                      const cudnnTensorDescriptor_t y_as, void* y);
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t w_as, const void* w,
                                           const cudnnTensorDescriptor_t dy_as, const void* dy,
                                           const cudnnConvolutionDescriptor_t moved,
                                           cudnnConvolutionBwdDataAlgo_t algo, void* workspace,
                                           size_t workspace_bytes, const void* beta,
                                           const cudnnTensorDescriptor_t dx_as, void* dx);
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x_as, const void* x,
                                             const cudnnTensorDescriptor_t dy_as, const void* dy,
                                             const cudnnConvolutionDescriptor_t moved,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void* workspace,
                                             size_t workspace_bytes, const void* beta,
                                             const cudnnFilterDescriptor_t dw_as, void* dw);
cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* made);
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t made);
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t to, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t nan, int h, int w, int padding_h,
                                          int padding_w, int stride_h, int stride_w);
cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling,
                                  const void* alpha, const cudnnTensorDescriptor_t x_as,
                                  const void* x, const void* beta,
                                  const cudnnTensorDescriptor_t y_as, void* y);
cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling,
                                   const void* alpha, const cudnnTensorDescriptor_t y_as,
                                   const void* y, const cudnnTensorDescriptor_t dy_as,
                                   const void* dy, const cudnnTensorDescriptor_t x_as,
                                   const void* x, const void* beta,
                                   const cudnnTensorDescriptor_t dx_as, void* dx);
cudnnStatus_t cudnnCreateOpTensorDescriptor(cudnnOpTensorDescriptor_t* made);
cudnnStatus_t cudnnDestroyOpTensorDescriptor(cudnnOpTensorDescriptor_t made);
cudnnStatus_t cudnnSetOpTensorDescriptor(cudnnOpTensorDescriptor_t to, cudnnOpTensorOp_t op,
                                         cudnnDataType_t type, cudnnNanPropagation_t nan);
cudnnStatus_t cudnnOpTensor(cudnnHandle_t handle, const cudnnOpTensorDescriptor_t op,
                            const void* alpha1, const cudnnTensorDescriptor_t a_as, const void* a,
                            const void* alpha2, const cudnnTensorDescriptor_t b_as, const void* b,
                            const void* beta, const cudnnTensorDescriptor_t c_as, void* c);
cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t x_as, const void* x, const cudnnTensorDescriptor_t y_as, void* y,
    const cudnnTensorDescriptor_t channels_as, const void* scale, const void* shift, double newest,
    void* mean, void* variance, double epsilon, void* kept_mean, void* kept_inverse);
cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t x_as, const void* x, const cudnnTensorDescriptor_t y_as, void* y,
    const cudnnTensorDescriptor_t channels_as, const void* scale, const void* shift,
    const void* mean, const void* variance, double epsilon);
cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_data, const void* beta_data,
    const void* alpha_weights, const void* beta_weights, const cudnnTensorDescriptor_t x_as,
    const void* x, const cudnnTensorDescriptor_t dy_as, const void* dy,
    const cudnnTensorDescriptor_t dx_as, void* dx, const cudnnTensorDescriptor_t channels_as,
    const void* scale, void* made_scale, void* made_shift, double epsilon, const void* kept_mean,
    const void* kept_inverse);
}
