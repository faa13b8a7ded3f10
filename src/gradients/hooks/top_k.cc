// topKGradients: the largest elements of a bucket as pairs of index and value, the rest next time.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "rondo/gradients.h"

namespace rondo {

namespace {

class TopK final : public GradientHook {
 public:
  explicit TopK(double density) : density_(density) {
    if (!(density > 0 && density <= 1))
      throw Error(ErrorCode::invalid_argument,
                  "topKGradients: density " + std::to_string(density) + " is not in (0, 1]");
  }

  std::string name() const override { return "top_k"; }
  bool supports(DataType type) const override { return type == DataType::float32; }

  Work start(Communicator& comm, GradientBucket& bucket) override {
    State& state = stateOf(bucket);
    const std::size_t all = state.sent.size() * static_cast<std::size_t>(comm.size());
    state.all_sent.resize(all);
    state.all_values.resize(all);
    const auto* const gradient = static_cast<const float*>(bucket.data);
    for (std::size_t i = 0; i < bucket.count; ++i) state.kept[i] += gradient[i];
    select(state);
    for (std::size_t i = 0; i < state.sent.size(); ++i) {
      float& value = state.kept[state.sent[i]];
      state.values[i] = value;
      value = 0;
    }
    Group group;
    comm.allGather(state.sent.data(), state.all_sent.data(), state.sent.size(), DataType::uint32);
    comm.allGather(state.values.data(), state.all_values.data(), state.values.size(),
                   DataType::float32);
    return group.start();
  }

  void finish(Communicator&, GradientBucket& bucket) override {
    const State& state = states_.at(bucket.index);
    const auto factor = static_cast<float>(bucket.factor);
    auto* const result = static_cast<float*>(bucket.data);
    std::fill_n(result, bucket.count, 0.0F);
    for (std::size_t i = 0; i < state.all_sent.size(); ++i)
      result[state.all_sent[i]] += factor * state.all_values[i];
  }

  std::uint64_t bytes(const GradientBucket& bucket) const override {
    return states_.at(bucket.index).sent.size() * (sizeof(std::uint32_t) + sizeof(float));
  }

  std::vector<GradientHookArray> state(std::span<const GradientBucket> buckets) override {
    std::vector<GradientHookArray> arrays;
    for (const GradientBucket& bucket : buckets)
      arrays.push_back({"kept." + std::to_string(bucket.index), stateOf(bucket).kept});
    return arrays;
  }

 private:
  struct State {
    std::vector<std::size_t> parameters; ///< of the bucket that it belongs to
    std::vector<float> kept;             ///< what was not sent so far
    std::vector<std::uint32_t> order;    ///< scratch: all indices
    std::vector<std::uint32_t> sent, all_sent;
    std::vector<float> values, all_values;
  };

  State& stateOf(const GradientBucket& bucket) {
    State& state = states_[bucket.index];
    if (state.parameters != bucket.parameters || state.kept.size() != bucket.count) {
      const auto wanted =
          static_cast<std::size_t>(std::ceil(density_ * static_cast<double>(bucket.count)));
      state = {.parameters = bucket.parameters,
               .kept = std::vector<float>(bucket.count),
               .order = std::vector<std::uint32_t>(bucket.count),
               .sent = std::vector<std::uint32_t>(wanted),
               .all_sent = {},
               .values = std::vector<float>(wanted),
               .all_values = {}};
      std::iota(state.order.begin(), state.order.end(), 0U);
    }
    return state;
  }

  /// Orders as magnitudes do, infinity above all numbers and NaN above that.
  static std::uint32_t magnitude(float value) {
    return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
  }

  /// The largest, equal ones by their index; in ascending order.
  static void select(State& state) {
    const auto larger = [&kept = state.kept](std::uint32_t a, std::uint32_t b) {
      const std::uint32_t left = magnitude(kept[a]), right = magnitude(kept[b]);
      return left > right || (left == right && a < b);
    };
    const auto end = state.order.begin() + static_cast<std::ptrdiff_t>(state.sent.size());
    if (end != state.order.end())
      std::nth_element(state.order.begin(), end, state.order.end(), larger);
    std::copy(state.order.begin(), end, state.sent.begin());
    std::sort(state.sent.begin(), state.sent.end());
  }

  const double density_;
  std::map<std::size_t, State> states_; ///< by bucket
};

} // namespace

std::unique_ptr<GradientHook> topKGradients(double density) {
  return std::make_unique<TopK>(density);
}

} // namespace rondo
