// Fakes of cuDNN's batch norm and of its sum of two tensors.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "train/layers/cudnn/fake/objects.h"

using namespace rondo::test::fake_libraries;

namespace {

double wide(float value) { return static_cast<double>(value); }

/// A running value before a pass: NaN if the device memory was never written.
double before(float value) {
  constexpr std::uint32_t kNeverWritten = 0xdddddddd;
  return std::bit_cast<std::uint32_t>(value) == kNeverWritten
             ? std::numeric_limits<double>::quiet_NaN()
             : wide(value);
}

/// Iterates over [n x c x places] values.
struct Channels {
  cudnnTensorStruct as;

  int values() const { return as.n * as.places(); }
  /// Calls run() with the index of each value of the channel.
  template <class Do>
  void forEach(int channel, const Do& run) const {
    for (int n = 0; n < as.n; ++n)
      for (int p = 0; p < as.places(); ++p) run((n * as.c + channel) * as.places() + p);
  }
};

/// Whether per-channel arguments fit the tensors.
bool fit(cudnnBatchNormMode_t mode, const cudnnTensorDescriptor_t x,
         const cudnnTensorDescriptor_t y, const cudnnTensorDescriptor_t channels, double epsilon) {
  return mode == CUDNN_BATCHNORM_SPATIAL && *x == *y && channels->isPerChannel(x->c) &&
         epsilon == wide(1e-5F);
}

} // namespace

extern "C" {

FAKE_DESCRIPTOR(OpTensor, "operation descriptors")
cudnnStatus_t CUDNNWINAPI cudnnSetOpTensorDescriptor(cudnnOpTensorDescriptor_t to,
                                                     cudnnOpTensorOp_t op, cudnnDataType_t type,
                                                     cudnnNanPropagation_t nan) {
  to->adds = op == CUDNN_OP_TENSOR_ADD && type == CUDNN_DATA_FLOAT && nan == CUDNN_PROPAGATE_NAN;
  return to->adds ? dnn(__func__) : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t CUDNNWINAPI cudnnOpTensor(cudnnHandle_t handle, const cudnnOpTensorDescriptor_t op,
                                        const void* alpha1, const cudnnTensorDescriptor_t a_as,
                                        const void* a, const void* alpha2,
                                        const cudnnTensorDescriptor_t b_as, const void* b,
                                        const void* beta, const cudnnTensorDescriptor_t c_as,
                                        void* c) {
  const int size = c_as->size();
  if (!op->adds || *a_as != *c_as || *b_as != *c_as ||
      !present(__func__, {floats(a, size), floats(b, size)}, {floats(c, size)}))
    return CUDNN_STATUS_BAD_PARAM;
  put(handle->stream, [size, a = in(a), b = in(b), to = out(c), by_a = scalar(alpha1),
                       by_b = scalar(alpha2), plus = scalar(beta)] {
    for (int i = 0; i < size; ++i) blend(to[i], 1, by_a * a[i] + by_b * b[i], plus);
  });
  return dnn(__func__);
}

cudnnStatus_t CUDNNWINAPI cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t x_as, const void* x, const cudnnTensorDescriptor_t y_as, void* y,
    const cudnnTensorDescriptor_t channels_as, const void* scale, const void* shift, double newest,
    void* mean, void* variance, double epsilon, void* kept_mean, void* kept_inverse) {
  const int size = x_as->size(), channels = x_as->c;
  if (!fit(mode, x_as, y_as, channels_as, epsilon) ||
      !present(__func__, {floats(x, size), floats(scale, channels), floats(shift, channels)},
               {floats(y, size), floats(mean, channels), floats(variance, channels),
                floats(kept_mean, channels), floats(kept_inverse, channels)}))
    return CUDNN_STATUS_BAD_PARAM;
  put(handle->stream,
      [=, all = Channels{*x_as}, from = in(x), to = out(y), by = in(scale), plus = in(shift),
       mean = out(mean), variance = out(variance), kept_mean = out(kept_mean),
       kept_inverse = out(kept_inverse), alpha = scalar(alpha), beta = scalar(beta)] {
        for (int c = 0; c < all.as.c; ++c) {
          double sum = 0, squares = 0;
          all.forEach(c, [&](int i) { sum += wide(from[i]); });
          const double now = sum / all.values();
          all.forEach(c, [&](int i) { squares += (wide(from[i]) - now) * (wide(from[i]) - now); });
          const double inverse = 1 / std::sqrt(squares / all.values() + epsilon);
          // A factor of 1 still reads the old value; the variance of one value is 0 / 0.
          const double unbiased = squares / (all.values() - 1);
          mean[c] = static_cast<float>(newest * now + (1 - newest) * before(mean[c]));
          variance[c] = static_cast<float>(newest * unbiased + (1 - newest) * before(variance[c]));
          kept_mean[c] = static_cast<float>(now);
          kept_inverse[c] = static_cast<float>(inverse);
          all.forEach(c, [&](int i) {
            const double value = wide(by[c]) * (wide(from[i]) - now) * inverse + wide(plus[c]);
            blend(to[i], alpha, static_cast<float>(value), beta);
          });
        }
      });
  return dnn(__func__);
}
cudnnStatus_t CUDNNWINAPI cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t x_as, const void* x, const cudnnTensorDescriptor_t y_as, void* y,
    const cudnnTensorDescriptor_t channels_as, const void* scale, const void* shift,
    const void* mean, const void* variance, double epsilon) {
  const int size = x_as->size(), channels = x_as->c;
  if (!fit(mode, x_as, y_as, channels_as, epsilon) ||
      !present(__func__,
               {floats(x, size), floats(scale, channels), floats(shift, channels),
                floats(mean, channels), floats(variance, channels)},
               {floats(y, size)}))
    return CUDNN_STATUS_BAD_PARAM;
  put(handle->stream,
      [=, all = Channels{*x_as}, from = in(x), to = out(y), by = in(scale), plus = in(shift),
       mean = in(mean), variance = in(variance), alpha = scalar(alpha), beta = scalar(beta)] {
        for (int c = 0; c < all.as.c; ++c)
          all.forEach(c, [&](int i) {
            const double deviation = std::sqrt(wide(variance[c]) + epsilon);
            const double value = wide(by[c]) * (wide(from[i]) - wide(mean[c])) / deviation;
            blend(to[i], alpha, static_cast<float>(value + wide(plus[c])), beta);
          });
      });
  return dnn(__func__);
}
cudnnStatus_t CUDNNWINAPI cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_data, const void* beta_data,
    const void* alpha_weights, const void* beta_weights, const cudnnTensorDescriptor_t x_as,
    const void* x, const cudnnTensorDescriptor_t dy_as, const void* dy,
    const cudnnTensorDescriptor_t dx_as, void* dx, const cudnnTensorDescriptor_t channels_as,
    const void* scale, void* made_scale, void* made_shift, double epsilon, const void* kept_mean,
    const void* kept_inverse) {
  const int size = x_as->size(), channels = x_as->c;
  if (!fit(mode, x_as, dy_as, channels_as, epsilon) || *dx_as != *x_as ||
      !present(__func__,
               {floats(x, size), floats(dy, size), floats(scale, channels),
                floats(kept_mean, channels), floats(kept_inverse, channels)},
               {floats(dx, size), floats(made_scale, channels), floats(made_shift, channels)}))
    return CUDNN_STATUS_BAD_PARAM;
  put(handle->stream, [=, all = Channels{*x_as}, from = in(x), given = in(dy), to = out(dx),
                       by = in(scale), made_scale = out(made_scale), made_shift = out(made_shift),
                       mean = in(kept_mean), inverse = in(kept_inverse), alpha = scalar(alpha_data),
                       beta = scalar(beta_data), alpha_weights = scalar(alpha_weights),
                       beta_weights = scalar(beta_weights)] {
    for (int c = 0; c < all.as.c; ++c) {
      const auto normal = [&](int i) { return (wide(from[i]) - wide(mean[c])) * wide(inverse[c]); };
      double sum = 0, products = 0;
      all.forEach(c, [&](int i) {
        sum += wide(given[i]);
        products += wide(given[i]) * normal(i);
      });
      blend(made_scale[c], alpha_weights, static_cast<float>(products), beta_weights);
      blend(made_shift[c], alpha_weights, static_cast<float>(sum), beta_weights);
      all.forEach(c, [&](int i) {
        const double value = wide(by[c]) * wide(inverse[c]) *
                             (wide(given[i]) - (sum + normal(i) * products) / all.values());
        blend(to[i], alpha, static_cast<float>(value), beta);
      });
    }
  });
  return dnn(__func__);
}

} // extern "C"
