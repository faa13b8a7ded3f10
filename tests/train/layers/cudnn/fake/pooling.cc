// A fake of cuDNN's pooling.
#include <cmath>

#include "train/layers/cudnn/fake/objects.h"

using namespace rondo::test::fake_libraries;

namespace {

struct Sizes {
  cudnnTensorStruct in, out;
  cudnnPoolingStruct pooling;

  bool fit() const {
    const auto places = [](int side, int padding, int kernel, int stride) {
      return 1 + (side + 2 * padding - kernel) / stride;
    };
    return in.n == out.n && in.c == out.c &&
           out.h == places(in.h, pooling.padding_h, pooling.h, pooling.stride_h) &&
           out.w == places(in.w, pooling.padding_w, pooling.w, pooling.stride_w);
  }
  bool highest() const { return pooling.mode == CUDNN_POOLING_MAX_DETERMINISTIC; }

  /// Calls run(output, inputs of the window) for each window.
  template <class Do>
  void forEach(const Do& run) const {
    std::vector<int> window;
    for (int o = 0; o < out.size(); ++o) {
      const int top = o / out.w % out.h * pooling.stride_h - pooling.padding_h,
                left = o % out.w * pooling.stride_w - pooling.padding_w;
      window.clear();
      for (int v = std::max(top, 0); v < std::min(top + pooling.h, in.h); ++v)
        for (int u = std::max(left, 0); u < std::min(left + pooling.w, in.w); ++u)
          window.push_back((o / out.places() * in.h + v) * in.w + u);
      run(o, window);
    }
  }
};

/// NaN counts as higher than all numbers.
int highest(const float* from, const std::vector<int>& window) {
  return *std::max_element(window.begin(), window.end(), [from](int a, int b) {
    return from[a] < from[b] || (std::isnan(from[b]) && !std::isnan(from[a]));
  });
}

} // namespace

extern "C" {

FAKE_DESCRIPTOR(Pooling, "pooling descriptors")
cudnnStatus_t CUDNNWINAPI cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t to,
                                                      cudnnPoolingMode_t mode,
                                                      cudnnNanPropagation_t nan, int h, int w,
                                                      int padding_h, int padding_w, int stride_h,
                                                      int stride_w) {
  *to = {mode, h, w, padding_h, padding_w, stride_h, stride_w};
  const bool known = mode == CUDNN_POOLING_MAX_DETERMINISTIC ||
                     mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
  if (!known || nan != CUDNN_PROPAGATE_NAN || std::min({h, w, stride_h, stride_w}) < 1 ||
      padding_h < 0 || padding_h >= h || padding_w < 0 || padding_w >= w)
    return CUDNN_STATUS_BAD_PARAM;
  return dnn(__func__);
}
cudnnStatus_t CUDNNWINAPI cudnnPoolingForward(cudnnHandle_t handle,
                                              const cudnnPoolingDescriptor_t pooling,
                                              const void* alpha, const cudnnTensorDescriptor_t x_as,
                                              const void* x, const void* beta,
                                              const cudnnTensorDescriptor_t y_as, void* y) {
  const Sizes sizes{*x_as, *y_as, *pooling};
  if (!sizes.fit() || !present(__func__, {floats(x, x_as->size())}, {floats(y, y_as->size())}))
    return CUDNN_STATUS_BAD_PARAM;
  put(handle->stream, [sizes, from = in(x), to = out(y), by = scalar(alpha), plus = scalar(beta)] {
    sizes.forEach([&](int o, const std::vector<int>& window) {
      float sum = 0;
      for (const int i : window) sum += from[i];
      const float mean = sum / static_cast<float>(sizes.pooling.h * sizes.pooling.w);
      blend(to[o], by, sizes.highest() ? from[highest(from, window)] : mean, plus);
    });
  });
  return dnn(__func__);
}
cudnnStatus_t CUDNNWINAPI cudnnPoolingBackward(
    cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling, const void* alpha,
    const cudnnTensorDescriptor_t y_as, const void* y, const cudnnTensorDescriptor_t dy_as,
    const void* dy, const cudnnTensorDescriptor_t x_as, const void* x, const void* beta,
    const cudnnTensorDescriptor_t dx_as, void* dx) {
  const Sizes sizes{*x_as, *y_as, *pooling};
  if (!sizes.fit() || *dy_as != *y_as || *dx_as != *x_as ||
      !present(__func__,
               {floats(y, y_as->size()), floats(dy, dy_as->size()), floats(x, x_as->size())},
               {floats(dx, dx_as->size())}))
    return CUDNN_STATUS_BAD_PARAM;
  put(handle->stream,
      [sizes, given = in(dy), from = in(x), to = out(dx), by = scalar(alpha), plus = scalar(beta)] {
        std::vector<float> sums(static_cast<std::size_t>(sizes.in.size()));
        sizes.forEach([&](int o, const std::vector<int>& window) {
          const float each = given[o] / static_cast<float>(sizes.pooling.h * sizes.pooling.w);
          if (sizes.highest()) sums[static_cast<std::size_t>(highest(from, window))] += given[o];
          else
            for (const int i : window) sums[static_cast<std::size_t>(i)] += each;
        });
        for (std::size_t i = 0; i < sums.size(); ++i) blend(to[i], by, sums[i], plus);
      });
  return dnn(__func__);
}

} // extern "C"
