// Implements topKGradients(): an all-gather of each rank's largest elements; the rest stays as
// residual.
#include <algorithm>
#include <map>

#include "gradients/codecs/top_k.h"
#include "rondo/gradients.h"

namespace rondo {

namespace {

class TopKHook final : public GradientHook {
 public:
  explicit TopKHook(double density) : codec_(density) {}

  std::string name() const override { return "top_k"; }
  bool supports(DataType type) const override { return type == DataType::float32; }

  Work start(Communicator& comm, GradientBucket& bucket) override {
    State& state = stateOf(bucket);
    state.all.resize(state.sent.size() * static_cast<std::size_t>(comm.size()));
    codec_.encode({static_cast<const float*>(bucket.data), bucket.count}, 1, state.kept,
                  state.sent.data());
    return comm.allGatherAsync(state.sent.data(), state.all.data(), state.sent.size(),
                               DataType::uint8);
  }

  void finish(Communicator&, GradientBucket& bucket) override {
    const State& state = states_.at(bucket.index);
    const std::span result(static_cast<float*>(bucket.data), bucket.count);
    std::fill(result.begin(), result.end(), 0.0F);
    for (std::size_t at = 0; at < state.all.size(); at += state.sent.size())
      codec_.add(state.all.data() + at, static_cast<float>(bucket.factor), result);
  }

  std::uint64_t bytes(const GradientBucket& bucket) const override {
    return codec_.bytes(bucket.count);
  }
  bool gathers() const override { return true; }

  std::vector<GradientHookArray> state(std::span<const GradientBucket> buckets) override {
    std::vector<GradientHookArray> arrays;
    for (const GradientBucket& bucket : buckets)
      arrays.push_back({"kept." + std::to_string(bucket.index), stateOf(bucket).kept});
    return arrays;
  }

 private:
  struct State {
    std::vector<std::size_t> parameters; ///< of the bucket to which the state belongs
    std::vector<float> kept;             ///< residual: what has not been sent yet
    std::vector<std::byte> sent, all;    ///< this rank's message; the messages of all ranks
  };

  State& stateOf(const GradientBucket& bucket) {
    State& state = states_[bucket.index];
    if (state.parameters != bucket.parameters || state.kept.size() != bucket.count)
      state = {.parameters = bucket.parameters,
               .kept = std::vector<float>(bucket.count),
               .sent = std::vector<std::byte>(codec_.bytes(bucket.count)),
               .all = {}};
    return state;
  }

  gradients::TopK codec_;
  std::map<std::size_t, State> states_; ///< by index of the bucket
};

} // namespace

std::unique_ptr<GradientHook> topKGradients(double density) {
  return std::make_unique<TopKHook>(density);
}

} // namespace rondo
