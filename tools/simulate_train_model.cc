// Counts the weights and operations of models, and gives their layers times.
#include "tools/simulate_train_model.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/json.h"
#include "base/read_file.h"
#include "rondo/error.h"
#include "rondo/train_options.h"
#include "tools/plan_text.h"
#include "train/layers/kind.h"
#include "train/layers/node.h"
#include "train/loop/compute_threads.h"
#include "train/models/model.h"
#include "train/parallel/pipeline/cut.h"

namespace rondo::tools {

namespace {

using training::SampleShape;

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

double flopsOf(const training::Node& node) {
  const auto out = static_cast<double>(node.out.size());
  if (std::holds_alternative<training::Linear>(node.value))
    return 2 * static_cast<double>(node.in.size()) * out;
  if (const auto* convolution = std::get_if<training::Convolution>(&node.value)) {
    const auto kernel = static_cast<double>(convolution->window.kernel);
    return 2 * kernel * kernel * static_cast<double>(node.in.channels) * out;
  }
  return 0;
}

void append(StepModel& model, const training::Node& node, std::size_t place, std::size_t unit) {
  for (const auto* branch : {&node.body, &node.shortcut})
    for (const training::Node& inner : *branch) append(model, inner, place, unit);
  StepLayer layer{.name = node.path + " " + std::string(training::kindOf(node.value)),
                  .place = place,
                  .unit = unit,
                  .flops = flopsOf(node),
                  .outputs = node.out.size()};
  for (const training::Weight* weight : node.weights) layer.weights.push_back(weight->size());
  model.layers.push_back(std::move(layer));
}

SampleShape shapeOf(const std::string& name, const std::string& text) {
  if (text.empty()) {
    if (name == "resnet50") return {3, 224, 224};
    if (name == "resnet18") return {3, 32, 32};
    return name == "even" ? SampleShape{2, 16, 16} : SampleShape{1, 28, 28};
  }
  SampleShape shape{};
  const char *at = text.data(), *const end = at + text.size();
  for (std::size_t* side : {&shape.channels, &shape.height, &shape.width}) {
    if (side != &shape.channels && (at == end || *at++ != 'x')) *side = 0;
    const auto [next, fault] = std::from_chars(at, end, *side);
    if (fault != std::errc() || *side < 1 || *side > 4096 || (side == &shape.width && next != end))
      refuse("'" + text + "' is not CHANNELSxHEIGHTxWIDTH, each from 1 to 4096");
    at = next;
  }
  return shape;
}

StepModel trainerModel(const std::string& name, const std::string& shape) {
  StepModel model{.name = name, .input = shapeOf(name, shape)};
  const std::size_t classes = name == "resnet50" ? 1000 : 10;
  model.values = training::model(name, model.input, classes);
  const auto units = training::units(model.values);
  training::Weights weights;
  const auto nodes = training::place(model.values, model.input, "", weights);
  std::size_t unit = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    while (i >= units[unit].end) ++unit;
    append(model, nodes[i], i, unit);
  }
  return model;
}

StepModel bert() {
  constexpr std::size_t kLayers = 24, kHidden = 1024, kInner = 4096, kWords = 30522,
                        kPositions = 512, kTokens = 128, kMasked = 20;
  constexpr double h = kHidden, f = kInner, t = kTokens;
  StepModel model{.name = std::string(kBert)};
  const auto add = [&](const std::string& layer, std::vector<std::size_t> weights, double flops) {
    const std::size_t place = model.layers.size();
    model.layers.push_back({.name = layer,
                            .place = place,
                            .unit = place,
                            .weights = std::move(weights),
                            .flops = flops,
                            .outputs = kTokens * kHidden});
  };
  add("embeddings", {kWords * kHidden, kPositions * kHidden, 2 * kHidden, kHidden, kHidden}, 0);
  for (std::size_t i = 0; i < kLayers; ++i) {
    std::vector<std::size_t> attention;
    for (int matrix = 0; matrix < 4; ++matrix) {
      attention.push_back(kHidden * kHidden);
      attention.push_back(kHidden);
    }
    attention.insert(attention.end(), {kHidden, kHidden}); // layer norm
    add(std::to_string(i) + " attention", attention, 8 * t * h * h + 4 * t * t * h);
    add(std::to_string(i) + " feed-forward",
        {kHidden * kInner, kInner, kInner * kHidden, kHidden, kHidden, kHidden}, 4 * t * h * f);
  }
  add("head", {kHidden * kHidden, kHidden, kHidden * kHidden, kHidden, kHidden, kHidden, kWords},
      2 * h * h + kMasked * (2 * h * h + 2 * h * kWords));
  return model;
}

/// Sets times of the layers of [begin, end) that add up to those given.
void divide(StepModel& model, const std::function<bool(const StepLayer&)>& chosen, double forward,
            double backward) {
  double all = 0, count = 0;
  for (const StepLayer& layer : model.layers)
    if (chosen(layer)) {
      all += layer.flops;
      ++count;
    }
  for (StepLayer& layer : model.layers) {
    if (!chosen(layer)) continue;
    const double share = all > 0 ? layer.flops / all : 1 / count;
    layer.forward = forward * share;
    layer.backward = backward * share;
  }
}

double total(const StepModel& model, double StepLayer::*member) {
  double sum = 0;
  for (const StepLayer& layer : model.layers) sum += layer.*member;
  return sum;
}

/// Reads members of a report; errors name file and line.
class Report {
 public:
  Report(const base::Json& json, const std::string& file) : json_(json), file_(file) {}

  [[noreturn]] void fail(const base::Json& at, const std::string& why) const {
    throw Error(ErrorCode::data, file_ + ":" + std::to_string(at.line) + ": " + why);
  }
  const base::Json& value(const char* key, base::Json::Kind kind) const {
    const base::Json* found = json_.find(key);
    if (!found || found->kind != kind)
      fail(found ? *found : json_, std::string("\"") + key +
                                       "\" is missing or of another type: this is no report of "
                                       "`rondo train --json`");
    return *found;
  }
  Report object(const char* key) const { return {value(key, base::Json::Kind::object), file_}; }
  double number(const char* key) const {
    const base::Json& found = value(key, base::Json::Kind::number);
    if (!(found.number >= 0)) fail(found, std::string("\"") + key + "\" must not be negative");
    return found.number;
  }
  bool is(const char* key, std::string_view text) const {
    const base::Json* found = json_.find(key);
    return found && found->kind == base::Json::Kind::string && found->text == text;
  }
  void expect(const char* key, double wanted) const {
    if (number(key) != wanted)
      fail(*json_.find(key), std::string(key) + " is " + formatted("%g", number(key)) +
                                 ", but must be " + formatted("%g", wanted));
  }

 private:
  const base::Json& json_;
  const std::string& file_;
};

} // namespace

double StepModel::forward() const { return total(*this, &StepLayer::forward); }
double StepModel::backward() const { return total(*this, &StepLayer::backward); }
double StepModel::flops() const { return total(*this, &StepLayer::flops); }
std::size_t StepModel::weights() const {
  std::size_t sum = 0;
  for (const StepLayer& layer : layers)
    for (const std::size_t count : layer.weights) sum += count;
  return sum;
}

StepModel stepModel(const std::string& name, const std::string& shape, std::size_t samples) {
  if (name == kBert && !shape.empty()) refuse("bert takes no --shape: its samples are tokens");
  StepModel model = name == kBert ? bert() : trainerModel(name, shape);
  model.samples = samples;
  return model;
}

void timeByRate(StepModel& model, double flops_per_second) {
  if (!std::isfinite(flops_per_second) || flops_per_second <= 0)
    refuse("the rate of computation must be finite and above 0");
  for (StepLayer& layer : model.layers) {
    layer.forward = layer.flops * static_cast<double>(model.samples) / flops_per_second;
    layer.backward = 2 * layer.forward;
  }
  model.source = "assumed, " + formatted("%.4g", flops_per_second * 1e-12) + " TFLOP/s";
}

void timeByReport(StepModel& model, const std::string& file) {
  const auto text = base::readFile(file);
  if (!text) throw Error(ErrorCode::data, file + ": " + std::strerror(errno));
  const base::Json json = base::parseJson(*text, file);
  const Report report(json, file);
  const Report options = report.object("options"), parts = report.object("step_parts_ms");
  // Ranks of strategy local compute at the same time, and send nothing during their passes.
  const double ranks = options.is("strategy", "local") ? report.number("ranks") : 1;
  report.expect("version", 1);
  report.expect("ranks", ranks);
  const base::Json& trained = options.value("model", base::Json::Kind::string);
  if (trained.text != model.name)
    options.fail(trained, "the model is " + trained.text + ", but must be " + model.name);
  const double micro = options.number("accumulate");
  if (micro < 1)
    options.fail(options.value("accumulate", base::Json::Kind::number), "accumulate is below 1");
  options.expect("batch", static_cast<double>(model.samples) * micro * ranks);
  divide(
      model, [](const StepLayer&) { return true; }, parts.number("forward") / micro * 1e-3,
      parts.number("backward") / micro * 1e-3);
  model.data = parts.number("data") * 1e-3;
  model.optimizer = parts.number("optimizer") * 1e-3;
  model.source = "from " + file;
  if (ranks > 1) model.source += ", " + formatted("%g", ranks) + " ranks at the same time";
}

void timeByMeasurement(StepModel& model) {
  if (model.values.empty())
    refuse("model " + model.name + " cannot be measured here: use --tflops");
  const training::ComputeThreads one_thread;
  const auto units = training::units(model.values);
  const auto times = training::measure(model.values, model.input, units, model.samples);
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    divide(
        model, [&](const StepLayer& layer) { return layer.unit == unit; }, times[unit].forward,
        times[unit].backward);
  model.source = "measured on this processor, without data and optimizer";
}

} // namespace rondo::tools
