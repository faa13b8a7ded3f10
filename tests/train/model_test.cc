// The arithmetic: products against plain loops, gradients against differences, hashing.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "rondo/detail/hash.h"
#include "rondo/error.h"
#include "support/test.h"
#include "train/mlp.h"
#include "train/product.h"

namespace rondo::training {

/// The product in plain loops; found by Mlp<double>, and what oneDNN must give.
template <class Real>
void multiplyPlainly(const Product& p, const Real* a, const Real* b, Real* c) {
  for (std::size_t i = 0; i < p.rows; ++i)
    for (std::size_t j = 0; j < p.columns; ++j) {
      Real sum = 0;
      for (std::size_t k = 0; k < p.inner; ++k)
        sum += (p.a_transposed ? a[k * p.rows + i] : a[i * p.inner + k]) *
               (p.b_transposed ? b[j * p.inner + k] : b[k * p.columns + j]);
      c[i * p.columns + j] = sum;
    }
}

void multiply(const Product& p, const double* a, const double* b, double* c) {
  multiplyPlainly(p, a, b, c);
}

} // namespace rondo::training

namespace rondo::test {
namespace {

using namespace training;

const std::vector<std::size_t> kWidths = {7, 6, 5, 3};

template <class Real>
struct Samples {
  AlignedVector<Real> images;
  std::vector<std::uint8_t> labels;

  explicit Samples(std::size_t count) {
    Random random(11);
    for (std::size_t i = 0; i < count * kWidths.front(); ++i)
      images.push_back(static_cast<Real>(random.symmetric()));
    for (std::size_t i = 0; i < count; ++i)
      labels.push_back(static_cast<std::uint8_t>(random.below(3)));
  }
};

/// The loss, and its gradient as one array like the parameters'.
template <class Real>
Real lossAndGradient(Mlp<Real>& model, const Real* parameters, const Samples<Real>& samples,
                     std::size_t count, Real* gradient) {
  const Real* images = samples.images.data();
  const Real loss = model.loss(parameters, images, samples.labels.data(), count);
  std::vector<Real*> places;
  for (const auto& shape : model.shapes()) {
    places.push_back(gradient);
    gradient += std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  }
  model.backward(
      parameters, images, count, [&](std::size_t i) { return places[i]; }, [](std::size_t) {});
  return loss;
}

} // namespace

TEST_CASE("the gradient is the loss's slope in every parameter") {
  for (std::uint64_t seed : {1, 2, 3})
    for (std::size_t count : {1, 4}) {
      const Samples<double> samples(count);
      Mlp<double> model(kWidths);
      auto parameters = model.initialParameters(seed);
      std::vector<double> gradient(parameters.size()), ignored(parameters.size());
      const auto loss = [&](double* to) {
        return lossAndGradient(model, parameters.data(), samples, count, to);
      };
      loss(gradient.data());
      REQUIRE(std::any_of(gradient.begin(), gradient.end(), [](double g) { return g != 0; }));
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        constexpr double kStep = 1e-5;
        const double kept = parameters[i];
        parameters[i] = kept + kStep;
        const double above = loss(ignored.data());
        parameters[i] = kept - kStep;
        const double below = loss(ignored.data());
        parameters[i] = kept;
        INFO("seed " << seed << ", " << count << " samples, parameter " << i << " of "
                     << parameters.size());
        const double slope = (above - below) / (2 * kStep);
        REQUIRE(std::abs(slope - gradient[i]) <= 1e-6 * std::max(1.0, std::abs(slope)));
      }
    }
}

TEST_CASE("the first parameters depend on the seed, have He's variance, and biases are zero") {
  const Mlp<float> model({400, 300, 10});
  const auto parameters = model.initialParameters(5);
  REQUIRE(parameters == model.initialParameters(5));
  REQUIRE(parameters != model.initialParameters(6));
  REQUIRE(parameters.size() == 401 * 300 + 301 * 10);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < 400 * 300; ++i) {
    sum += parameters[i];
    squares += double{parameters[i]} * parameters[i];
  }
  REQUIRE(std::abs(sum / (400 * 300)) < 1e-3);
  REQUIRE(std::abs(squares / (400 * 300) - 2.0 / 400) < 1e-4);
  const auto biases = parameters.begin() + 400 * 300;
  REQUIRE(std::all_of(biases, biases + 300, [](float bias) { return bias == 0; }));
}

TEST_CASE("correct answers are those whose class has the highest output") {
  // One layer that hands its input through.
  Mlp<double> model({3, 3});
  std::vector<double> parameters(model.parameterCount());
  for (std::size_t i = 0; i < 3; ++i) parameters[i * 3 + i] = 1;
  const std::vector<double> images = {9, 1, 1, /**/ 1, 9, 1, /**/ 1, 1, 9, /**/ 0, 5, 1};
  for (std::uint8_t last = 0; last < 3; ++last) {
    const std::vector<std::uint8_t> labels = {0, 1, 1, last};
    REQUIRE(model.countCorrect(parameters.data(), images.data(), labels.data(), 4) ==
            (last == 1 ? 3U : 2U));
  }
}

#ifdef RONDO_HAVE_DNNL

TEST_CASE("oneDNN multiplies as plain loops do, for all shapes and transpositions") {
  const std::vector<std::size_t> sizes = {1, 2, 7, 10, 16, 33, 64};
  for (std::size_t rows : sizes)
    for (std::size_t columns : sizes)
      for (std::size_t inner : sizes)
        for (int transposed = 0; transposed < 4; ++transposed) {
          const Product product{rows, columns, inner, (transposed & 1) != 0, (transposed & 2) != 0};
          // Whole numbers: every order of summing gives the same. Old content must not shine
          // through.
          AlignedVector<float> a(rows * inner), b(inner * columns);
          AlignedVector<float> c(rows * columns, NAN), expected(rows * columns);
          Random random(rows * 10'000 + columns * 100 + inner);
          for (float& x : a) x = static_cast<float>(random.below(9)) - 4;
          for (float& x : b) x = static_cast<float>(random.below(9)) - 4;
          multiply(product, a.data(), b.data(), c.data());
          multiplyPlainly(product, a.data(), b.data(), expected.data());
          INFO(rows << " x " << columns << " x " << inner << ", transposed " << transposed);
          REQUIRE(c == expected);
        }
}

TEST_CASE("single precision gives the gradient of double precision but for rounding") {
  constexpr std::size_t kCount = 5;
  const Samples<double> exact(kCount);
  const Samples<float> rounded(kCount);
  Mlp<double> reference(kWidths);
  Mlp<float> model(kWidths);
  std::vector<double> expected(reference.parameterCount());
  AlignedVector<float> gradient(model.parameterCount());
  const double loss = lossAndGradient(reference, reference.initialParameters(1).data(), exact,
                                      kCount, expected.data());
  const float near =
      lossAndGradient(model, model.initialParameters(1).data(), rounded, kCount, gradient.data());
  REQUIRE(std::abs(loss - near) < 1e-5);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("parameter " << i);
    REQUIRE(std::abs(expected[i] - gradient[i]) < 1e-5);
  }
}

#endif

TEST_CASE("a hash tells every single flipped bit, and the length") {
  std::vector<unsigned char> bytes(75, 0);
  std::set<std::uint64_t> hashes;
  for (std::size_t length = 0; length <= bytes.size(); ++length)
    hashes.insert(detail::hashBytes(bytes.data(), length));
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
    hashes.insert(detail::hashBytes(bytes.data(), bytes.size()));
    bytes[bit / 8] = 0;
  }
  REQUIRE(hashes.size() == bytes.size() + 1 + bytes.size() * 8);
}

} // namespace rondo::test
