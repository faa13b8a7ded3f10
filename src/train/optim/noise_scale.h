// How noisy gradients are: estimated from gradients of small batches and of a large one.
#pragma once

namespace rondo::training {

/// Of a gradient g over single samples: estimates that are right on average, and may be negative
/// each. Sums over steps are estimates, too: divide after adding.
struct GradientNoise {
  double square = 0;   ///< |mean of g|^2
  double variance = 0; ///< the trace of g's covariance

  GradientNoise& operator+=(const GradientNoise& other) {
    square += other.square;
    variance += other.variance;
    return *this;
  }
  /// The batch, in samples, whose mean gradient is as much noise as signal.
  double scale() const { return variance / square; }
};

/// The mean gradient of n samples has the expected square |mean|^2 + variance / n. Two equations,
/// of the mean square norm of gradients over `few` samples, and of that over all of `many`, give
/// both. (McCandlish et al., An Empirical Model of Large-Batch Training, 2018, appendix A.)
inline GradientNoise gradientNoise(double of_few, double few, double of_many, double many) {
  return {.square = (many * of_many - few * of_few) / (many - few),
          .variance = (of_few - of_many) / (1 / few - 1 / many)};
}

} // namespace rondo::training
