// Estimates the noise of gradients from gradients of small batches and of a large one.
#pragma once

namespace rondo::training {

/// Estimates for the gradient g of single samples. They are unbiased if all small batches have the
/// same number of samples, so one of them may be negative. Add the estimates of many steps before
/// dividing.
struct GradientNoise {
  double square = 0;   ///< |mean of g|^2
  double variance = 0; ///< the trace of g's covariance

  GradientNoise& operator+=(const GradientNoise& other) {
    square += other.square;
    variance += other.variance;
    return *this;
  }
  /// The batch size whose mean gradient contains as much noise as signal.
  double scale() const { return variance / square; }
};

/// Estimates both values from two measurements: the mean squared norm of gradients over `few`
/// samples each, and the squared norm of the mean gradient of `many` samples. The expected squared
/// norm of a mean over n samples is |mean|^2 + variance / n, which gives two equations. (McCandlish
/// et al., An Empirical Model of Large-Batch Training, 2018, appendix A.)
inline GradientNoise gradientNoise(double of_few, double few, double of_many, double many) {
  return {.square = (many * of_many - few * of_few) / (many - few),
          .variance = (of_few - of_many) / (1 / few - 1 / many)};
}

} // namespace rondo::training
