// Implements powerSgdGradients(): a matrix M (n x m) is sent as P Q', with P (n x rank) and Q (m x
// rank).
//
// Each step is one iteration of the power method, which starts from the Q of the last step. P = M Q
// is summed over the ranks and made orthonormal. Q = M' P is summed over the ranks and multiplied
// by the bucket's factor. Every rank then has the same P Q', which approximates factor times the
// sum of all ranks' M. Each rank keeps M - P Q' / (factor * ranks) for the next step. So the sum
// loses nothing and counts nothing twice, even if the factor changes between steps, or a rank
// contributes only zeros and its residual.
// (n + m) * rank numbers are sent instead of n * m.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "rondo/detail/hash.h"
#include "rondo/gradients.h"

namespace rondo {

namespace {

/// A parameter of the bucket as a matrix: rows are the first extent, columns the product of the
/// others.
struct Matrix {
  std::size_t offset, rows, columns; ///< in the bucket
  std::size_t p, q; ///< where its factors begin in State::first and State::q, in elements
};

/// A part of the bucket that is sent uncompressed, from place `at` of State::first.
struct Whole {
  std::size_t offset, count, at;
};

class PowerSgd final : public GradientHook {
 public:
  PowerSgd(int rank, int exact_steps)
      : rank_(static_cast<std::size_t>(rank)), exact_steps_(static_cast<float>(exact_steps)) {
    if (rank < 1 || exact_steps < 0)
      throw Error(ErrorCode::invalid_argument,
                  "powerSgdGradients (rank from 1 on, exact_steps from 0 on): rank " +
                      std::to_string(rank) + ", exact_steps " + std::to_string(exact_steps));
  }

  std::string name() const override { return "power_sgd"; }
  bool supports(DataType type) const override { return type == DataType::float32; }

  Work start(Communicator& comm, GradientBucket& bucket) override {
    if (bucket.index == 0 && exact()) ++steps_;
    const auto count = bucket.count;
    if (exact())
      return comm.allReduceAsync(bucket.data, bucket.data, count, DataType::float32,
                                 ReduceOp::preMulSum(bucket.factor));
    State& state = stateOf(bucket);
    const auto* const gradient = static_cast<const float*>(bucket.data);
    for (std::size_t i = 0; i < count; ++i) state.target[i] = state.kept[i] + gradient[i];
    for (const Matrix& one : state.matrices) {
      const float* const m = state.target.data() + one.offset;
      const float* const q = state.q.data() + one.q;
      float* const p = state.first.data() + one.p;
      std::fill_n(p, one.rows * rank_, 0.0F);
      for (std::size_t r = 0; r < one.rows; ++r)
        for (std::size_t c = 0; c < one.columns; ++c)
          for (std::size_t k = 0; k < rank_; ++k)
            p[r * rank_ + k] += m[r * one.columns + c] * q[c * rank_ + k];
    }
    for (const Whole& one : state.wholes)
      std::memcpy(state.first.data() + one.at, gradient + one.offset, one.count * sizeof(float));
    return comm.allReduceAsync(state.first.data(), state.first.data(), state.first.size(),
                               DataType::float32, ReduceOp::preMulSum(bucket.factor));
  }

  void finish(Communicator& comm, GradientBucket& bucket) override {
    if (exact()) return;
    State& state = states_.at(bucket.index);
    state.old_q = state.q;
    for (const Matrix& one : state.matrices) {
      float* const p = state.first.data() + one.p;
      orthonormalize(p, one.rows);
      const float* const m = state.target.data() + one.offset;
      float* const q = state.q.data() + one.q;
      std::fill_n(q, one.columns * rank_, 0.0F);
      for (std::size_t r = 0; r < one.rows; ++r)
        for (std::size_t c = 0; c < one.columns; ++c)
          for (std::size_t k = 0; k < rank_; ++k)
            q[c * rank_ + k] += m[r * one.columns + c] * p[r * rank_ + k];
    }
    comm.allReduce(state.q.data(), state.q.data(), state.q.size(), DataType::float32,
                   ReduceOp::preMulSum(bucket.factor));
    auto* const result = static_cast<float*>(bucket.data);
    const auto share = static_cast<float>(1 / (bucket.factor * comm.size()));
    for (const Matrix& one : state.matrices) {
      expand(state, one, share, result);
      keepDirections(state, one);
    }
    for (const Whole& one : state.wholes)
      std::memcpy(result + one.offset, state.first.data() + one.at, one.count * sizeof(float));
  }

  std::uint64_t bytes(const GradientBucket& bucket) const override {
    if (exact()) return GradientHook::bytes(bucket);
    const State& state = states_.at(bucket.index);
    return (state.first.size() + state.q.size()) * sizeof(float);
  }

  std::vector<GradientHookArray> state(std::span<const GradientBucket> buckets) override {
    std::vector<GradientHookArray> arrays = {{"steps", {&steps_, 1}}};
    for (const GradientBucket& bucket : buckets) {
      State& one = stateOf(bucket);
      const std::string number = std::to_string(bucket.index);
      arrays.push_back({"kept." + number, one.kept});
      arrays.push_back({"q." + number, one.q});
    }
    return arrays;
  }

 private:
  struct State {
    std::vector<std::size_t> parameters; ///< of the bucket to which the state belongs
    std::vector<Matrix> matrices;
    std::vector<Whole> wholes;
    std::vector<float> kept, target; ///< [bucket.count]: residual; gradient + residual
    std::vector<float> first; ///< P of all matrices, then everything that is sent uncompressed
    std::vector<float> q;     ///< Q of all matrices
    std::vector<float> old_q; ///< Q of the last step
  };

  State& stateOf(const GradientBucket& bucket) {
    State& state = states_[bucket.index];
    if (state.parameters == bucket.parameters && state.kept.size() == bucket.count) return state;
    state = {};
    state.parameters = bucket.parameters;
    std::size_t p = 0, q = 0;
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      const std::vector<std::size_t>& shape = bucket.shapes[i];
      std::size_t count = 1;
      for (std::size_t extent : shape) count *= extent;
      if (count == 0) continue;
      const std::size_t rows = shape.empty() ? 1 : shape[0], columns = count / rows;
      if ((rows + columns) * rank_ < count) {
        state.matrices.push_back({bucket.offsets[i], rows, columns, p, q});
        p += rows * rank_;
        q += columns * rank_;
      } else {
        state.wholes.push_back({bucket.offsets[i], count, 0});
      }
    }
    for (Whole& one : state.wholes) {
      one.at = p;
      p += one.count;
    }
    state.kept.resize(bucket.count);
    state.target.resize(bucket.count);
    state.first.resize(p);
    state.q.resize(q);
    fillAlike(state.q, bucket.index);
    return state;
  }

  /// Whether the current step is one of those without compression.
  bool exact() const { return steps_ <= exact_steps_; }

  /// Fills with pseudo-random numbers in [-1, 1), the same on all ranks.
  static void fillAlike(std::vector<float>& numbers, std::size_t seed) {
    std::uint64_t state = seed;
    for (float& one : numbers) {
      one = static_cast<float>(static_cast<double>(detail::mix(state) >> 11) * 0x1p-52 - 1.0);
      state += detail::kGoldenRatio;
    }
  }

  /// Gram-Schmidt, column by column; a column of zeros stays zero. If a column nearly depends on
  /// those before it, one pass leaves much rounding error in the rest, which the second pass
  /// removes. A column that is not orthogonal to the others would count twice, and residuals would
  /// grow.
  void orthonormalize(float* p, std::size_t rows) const {
    for (std::size_t k = 0; k < rank_; ++k)
      for (int pass = 0; pass < 2; ++pass) {
        for (std::size_t before = 0; before < k; ++before) {
          const double product = dot(p, rows, k, before);
          for (std::size_t r = 0; r < rows; ++r)
            p[r * rank_ + k] -= static_cast<float>(product) * p[r * rank_ + before];
        }
        const double square = dot(p, rows, k, k);
        const double scale = square > 0 ? 1 / std::sqrt(square) : 0;
        for (std::size_t r = 0; r < rows; ++r)
          p[r * rank_ + k] = static_cast<float>(p[r * rank_ + k] * scale);
      }
  }

  double dot(const float* p, std::size_t rows, std::size_t a, std::size_t b) const {
    double sum = 0;
    for (std::size_t r = 0; r < rows; ++r)
      sum += static_cast<double>(p[r * rank_ + a]) * p[r * rank_ + b];
    return sum;
  }

  /// result = P Q'. Keeps the residual: the target minus this rank's `share` of the result.
  void expand(State& state, const Matrix& one, float share, float* result) const {
    const float* const p = state.first.data() + one.p;
    const float* const q = state.q.data() + one.q;
    for (std::size_t r = 0; r < one.rows; ++r)
      for (std::size_t c = 0; c < one.columns; ++c) {
        float sum = 0;
        for (std::size_t k = 0; k < rank_; ++k) sum += p[r * rank_ + k] * q[c * rank_ + k];
        const std::size_t at = one.offset + r * one.columns + c;
        result[at] = sum;
        state.kept[at] = state.target[at] - share * sum;
      }
  }

  /// Puts the previous values back into a column of Q that became zero, since it would stay zero
  /// for ever. All ranks do the same, since Q is the same on all ranks.
  void keepDirections(State& state, const Matrix& one) const {
    float* const q = state.q.data() + one.q;
    const float* const old = state.old_q.data() + one.q;
    for (std::size_t k = 0; k < rank_; ++k) {
      bool nothing = true;
      for (std::size_t c = 0; c < one.columns; ++c) nothing = nothing && q[c * rank_ + k] == 0;
      for (std::size_t c = 0; nothing && c < one.columns; ++c)
        q[c * rank_ + k] = old[c * rank_ + k];
    }
  }

  const std::size_t rank_;
  const float exact_steps_;
  /// Steps that have begun, counted only up to exact_steps_ + 1; a float, because checkpoints save
  /// floats.
  float steps_ = 0;
  std::map<std::size_t, State> states_; ///< by index of the bucket
};

} // namespace

std::unique_ptr<GradientHook> powerSgdGradients(int rank, int exact_steps) {
  return std::make_unique<PowerSgd>(rank, exact_steps);
}

} // namespace rondo
