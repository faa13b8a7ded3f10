// A fake of cuDNN's convolutions.
#include "train/layers/cudnn/fake/objects.h"

using namespace rondo::test::fake_libraries;

namespace {

struct Sizes {
  cudnnTensorStruct in, out;
  cudnnFilterStruct filter;
  cudnnConvolutionStruct moved;

  bool fit() const {
    const auto places = [](int side, int padding, int kernel, int stride) {
      return 1 + (side + 2 * padding - kernel) / stride;
    };
    return in.n == out.n && in.c == filter.c && out.c == filter.k &&
           out.h == places(in.h, moved.padding_h, filter.h, moved.stride_h) &&
           out.w == places(in.w, moved.padding_w, filter.w, moved.stride_w);
  }
  /// An arbitrary size that differs for each call and shape, so that a wrong one is detected.
  std::size_t workspace(int call) const {
    return static_cast<std::size_t>(out.size() / out.n * (call + 1) + 8 * filter.h) * sizeof(float);
  }
  /// Calls run() for each pair of an input and an output value, with the filter value between them.
  template <class Do>
  void forEach(const Do& run) const {
    for (int n = 0; n < out.n; ++n)
      for (int k = 0; k < out.c; ++k)
        for (int y = 0; y < out.h; ++y)
          for (int x = 0; x < out.w; ++x)
            for (int c = 0; c < in.c; ++c)
              for (int i = 0; i < filter.h; ++i)
                for (int j = 0; j < filter.w; ++j) {
                  const int v = y * moved.stride_h - moved.padding_h + i,
                            u = x * moved.stride_w - moved.padding_w + j;
                  if (v < 0 || v >= in.h || u < 0 || u >= in.w) continue;
                  run(((n * in.c + c) * in.h + v) * in.w + u,
                      ((n * out.c + k) * out.h + y) * out.w + x,
                      ((k * in.c + c) * filter.h + i) * filter.w + j);
                }
  }
};

enum { kForward, kBackData, kBackFilter };

/// Checks the arguments of a call and its workspace.
bool accepted(const char* function, int call, const Sizes& sizes, const Memory& workspace,
              const std::vector<Memory>& read, const Memory& written) {
  notePrecision(sizes.moved.floats);
  if (!sizes.fit() || workspace.bytes < sizes.workspace(call)) return false;
  return present(function, read, {written, workspace});
}

/// Sums in double, because the code under comparison sums in another order.
void write(std::vector<double>& sums, float* to, float by, float plus) {
  for (std::size_t i = 0; i < sums.size(); ++i) blend(to[i], by, static_cast<float>(sums[i]), plus);
}
std::vector<double> zeros(int count) {
  return std::vector<double>(static_cast<std::size_t>(count));
}
double product(float a, float b) { return static_cast<double>(a) * static_cast<double>(b); }
double& at(std::vector<double>& sums, int i) { return sums[static_cast<std::size_t>(i)]; }

} // namespace

extern "C" {

FAKE_DESCRIPTOR(Filter, "filter descriptors")
cudnnStatus_t CUDNNWINAPI cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t to,
                                                     cudnnDataType_t type,
                                                     cudnnTensorFormat_t format, int k, int c,
                                                     int h, int w) {
  *to = {k, c, h, w};
  if (type != CUDNN_DATA_FLOAT || format != CUDNN_TENSOR_NCHW || to->size() <= 0)
    return CUDNN_STATUS_BAD_PARAM;
  return dnn(__func__);
}
FAKE_DESCRIPTOR(Convolution, "convolution descriptors")
cudnnStatus_t CUDNNWINAPI cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t to,
                                                          int pad_h, int pad_w, int u, int v,
                                                          int dilation_h, int dilation_w,
                                                          cudnnConvolutionMode_t mode,
                                                          cudnnDataType_t type) {
  *to = {pad_h, pad_w, u, v, false};
  if (pad_h < 0 || pad_w < 0 || u < 1 || v < 1 || dilation_h != 1 || dilation_w != 1 ||
      mode != CUDNN_CROSS_CORRELATION || type != CUDNN_DATA_FLOAT)
    return CUDNN_STATUS_BAD_PARAM;
  return dnn(__func__);
}
cudnnStatus_t CUDNNWINAPI cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t to,
                                                      cudnnMathType_t type) {
  to->floats = type == CUDNN_FMA_MATH;
  return dnn(__func__);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x_as, const cudnnFilterDescriptor_t w_as,
    const cudnnConvolutionDescriptor_t moved, const cudnnTensorDescriptor_t y_as,
    cudnnConvolutionFwdAlgo_t algo, std::size_t* bytes) {
  const Sizes sizes{*x_as, *y_as, *w_as, *moved};
  if (!sizes.fit() || algo != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM)
    return CUDNN_STATUS_BAD_PARAM;
  *bytes = sizes.workspace(kForward);
  return dnn(__func__);
}
cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, const cudnnFilterDescriptor_t w_as, const cudnnTensorDescriptor_t dy_as,
    const cudnnConvolutionDescriptor_t moved, const cudnnTensorDescriptor_t dx_as,
    cudnnConvolutionBwdDataAlgo_t algo, std::size_t* bytes) {
  const Sizes sizes{*dx_as, *dy_as, *w_as, *moved};
  if (!sizes.fit() || algo != CUDNN_CONVOLUTION_BWD_DATA_ALGO_1) return CUDNN_STATUS_BAD_PARAM;
  *bytes = sizes.workspace(kBackData);
  return dnn(__func__);
}
cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x_as, const cudnnTensorDescriptor_t dy_as,
    const cudnnConvolutionDescriptor_t moved, const cudnnFilterDescriptor_t dw_as,
    cudnnConvolutionBwdFilterAlgo_t algo, std::size_t* bytes) {
  const Sizes sizes{*x_as, *dy_as, *dw_as, *moved};
  if (!sizes.fit() || algo != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1) return CUDNN_STATUS_BAD_PARAM;
  *bytes = sizes.workspace(kBackFilter);
  return dnn(__func__);
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                                  const cudnnTensorDescriptor_t x_as, const void* x,
                                                  const cudnnFilterDescriptor_t w_as, const void* w,
                                                  const cudnnConvolutionDescriptor_t moved,
                                                  cudnnConvolutionFwdAlgo_t algo, void* workspace,
                                                  std::size_t workspace_bytes, const void* beta,
                                                  const cudnnTensorDescriptor_t y_as, void* y) {
  const Sizes sizes{*x_as, *y_as, *w_as, *moved};
  if (algo != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ||
      !accepted(__func__, kForward, sizes, {workspace, workspace_bytes},
                {floats(x, x_as->size()), floats(w, w_as->size())}, floats(y, y_as->size())))
    return CUDNN_STATUS_BAD_PARAM;
  put(handle->stream, [=, from = in(x), by = in(w), to = out(y), alpha = scalar(alpha),
                       beta = scalar(beta), memory = static_cast<std::byte*>(workspace)] {
    std::fill_n(memory, workspace_bytes, std::byte{0xa5});
    auto sums = zeros(sizes.out.size());
    sizes.forEach([&](int i, int o, int f) { at(sums, o) += product(from[i], by[f]); });
    write(sums, to, alpha, beta);
  });
  return dnn(__func__);
}
cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t w_as, const void* w,
    const cudnnTensorDescriptor_t dy_as, const void* dy, const cudnnConvolutionDescriptor_t moved,
    cudnnConvolutionBwdDataAlgo_t algo, void* workspace, std::size_t workspace_bytes,
    const void* beta, const cudnnTensorDescriptor_t dx_as, void* dx) {
  const Sizes sizes{*dx_as, *dy_as, *w_as, *moved};
  if (algo != CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 ||
      !accepted(__func__, kBackData, sizes, {workspace, workspace_bytes},
                {floats(dy, dy_as->size()), floats(w, w_as->size())}, floats(dx, dx_as->size())))
    return CUDNN_STATUS_BAD_PARAM;
  put(handle->stream, [=, given = in(dy), by = in(w), to = out(dx), alpha = scalar(alpha),
                       beta = scalar(beta), memory = static_cast<std::byte*>(workspace)] {
    std::fill_n(memory, workspace_bytes, std::byte{0xa5});
    auto sums = zeros(sizes.in.size());
    sizes.forEach([&](int i, int o, int f) { at(sums, i) += product(given[o], by[f]); });
    write(sums, to, alpha, beta);
  });
  return dnn(__func__);
}
cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_as, const void* x,
    const cudnnTensorDescriptor_t dy_as, const void* dy, const cudnnConvolutionDescriptor_t moved,
    cudnnConvolutionBwdFilterAlgo_t algo, void* workspace, std::size_t workspace_bytes,
    const void* beta, const cudnnFilterDescriptor_t dw_as, void* dw) {
  const Sizes sizes{*x_as, *dy_as, *dw_as, *moved};
  if (algo != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ||
      !accepted(__func__, kBackFilter, sizes, {workspace, workspace_bytes},
                {floats(dy, dy_as->size()), floats(x, x_as->size())}, floats(dw, dw_as->size())))
    return CUDNN_STATUS_BAD_PARAM;
  put(handle->stream, [=, given = in(dy), from = in(x), to = out(dw), alpha = scalar(alpha),
                       beta = scalar(beta), memory = static_cast<std::byte*>(workspace)] {
    std::fill_n(memory, workspace_bytes, std::byte{0xa5});
    auto sums = zeros(sizes.filter.size());
    sizes.forEach([&](int i, int o, int f) { at(sums, f) += product(from[i], given[o]); });
    write(sums, to, alpha, beta);
  });
  return dnn(__func__);
}

} // extern "C"
