// Keeps a model's weights, and one program per batch size and purpose.
#include "train/models/network.h"

#include "rondo/error.h"
#include "train/models/model.h"
#include "train/random.h"
#ifdef RONDO_HAVE_DNNL
#include "train/layers/onednn/program.h"
#endif

namespace rondo::training {

namespace {

#ifdef RONDO_HAVE_DNNL
constexpr bool kBackend = true;
using onednn::makeProgram;
#else
constexpr bool kBackend = false;
std::unique_ptr<Program> makeProgram(const std::vector<Node>&, const Binding&) { return nullptr; }
#endif

std::vector<Weight*> pointers(std::deque<Weight>& weights) {
  std::vector<Weight*> result;
  for (Weight& weight : weights) result.push_back(&weight);
  return result;
}

} // namespace

Network::Network(const std::string& model, const SampleShape& input, std::size_t classes)
    : Network(training::model(model, input, classes), input) {}

Network::Network(const LayerValues& layers, const SampleShape& input) : input_(input) {
  if (!kBackend) {
    throw Error(ErrorCode::unsupported,
                "this build of Rondo cannot train: oneDNN was missing when it was configured "
                "(Debian: libdnnl-dev)");
  }
  nodes_ = place(layers, input, "", weights_);
  folded_.emplace(nodes_);
}

std::vector<Weight*> Network::weights() { return pointers(weights_.learned); }
std::vector<Weight*> Network::state() { return pointers(weights_.state); }

void Network::initialise(std::uint64_t seed) {
  Random random(seed);
  for (auto* weights : {&weights_.learned, &weights_.state})
    for (Weight& weight : *weights)
      for (std::size_t i = 0; i < weight.size(); ++i) {
        const double drawn = weight.spread > 0 ? weight.spread * random.symmetric() : 0;
        weight.value[i] = static_cast<float>(weight.start + drawn);
      }
  weightsChanged();
}

void Network::weightsChanged() {
  ++version_;
  stale_ = true;
}

void Network::moveState(std::size_t batches) {
  const float scale = 1.0F / static_cast<float>(batches);
  for (Weight& weight : weights_.state)
    for (std::size_t i = 0; i < weight.size(); ++i)
      weight.value[i] += BatchNorm::kNewest * (scale * weight.gradient[i] - weight.value[i]);
  weightsChanged();
}

double Network::forward(const Batch& batch, const Pass& pass) {
  passed_ = &program(batch.count, true);
  stale_ = stale_ || !weights_.state.empty(); // which the pass may move
  return passed_->forward(batch, pass);
}

void Network::backward(const Ready& ready) { passed_->backward(ready); }

std::string Network::firstNotFinite() const {
  const std::size_t layer = passed_->firstNotFinite();
  return layer < nodes_.size() ? "layer " + std::to_string(layer) : "the loss";
}

Score Network::evaluate(const Batch& batch) {
  folded();
  return program(batch.count, false).evaluate(batch);
}

const std::vector<Node>& Network::folded() {
  if (stale_) {
    folded_->refresh();
    ++folded_version_;
    stale_ = false;
  }
  return folded_->nodes();
}

Program& Network::program(std::size_t count, bool training) {
  auto& made = programs_[{count, training}];
  if (!made && training) made = makeProgram(nodes_, {input_, count, true, &version_});
  if (!made) made = makeProgram(folded_->nodes(), {input_, count, false, &folded_version_});
  return *made;
}

} // namespace rondo::training
