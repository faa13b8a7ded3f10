#include "train/parallel/tensor/plan.h"

#include <algorithm>

#include "train/layers/kind.h"
#include "train/parallel/plan_text.h"

namespace rondo::training {

namespace {

/// "layer 3 (linear)". A plan names layers like the model.
std::string named(const Node& node) {
  return "layer " + node.path + " (" + std::string(kindOf(node.value)) + ")";
}

/// Lists the slices of the first rank of a line, which has a part of every weight.
std::string slices(const TensorPlan& plan, const std::vector<Node>& nodes) {
  std::string text;
  auto weight = plan.weights.begin();
  for (const Node& node : nodes) {
    if (node.weights.empty()) continue;
    text += named(node) + ": ";
    const bool columns = weight->cut == Cut::columns;
    if (columns || weight->cut == Cut::rows)
      text += formatted("by %s, rank 0 has %zu to %zu of %zu\n", columns ? "columns" : "rows",
                        weight->own.begin, weight->own.end - 1, weight->features);
    else text += "whole on every rank\n";
    weight += static_cast<std::ptrdiff_t>(node.weights.size());
  }
  return text;
}

/// The text for a segment: layers of the model, of which there are `layers`, and the loss after the
/// last one.
std::string work(const LayerRange& range, const std::vector<Node>& nodes, std::size_t layers) {
  const std::size_t end = std::min(range.end, layers);
  std::string text;
  if (range.begin < end) text = named(nodes[range.begin]);
  if (range.begin + 1 < end) text += " to " + named(nodes[end - 1]);
  if (range.end < nodes.size()) return text;
  return text + (text.empty() ? "the loss" : ", the loss");
}

/// The text for the passes of a step with `samples` samples on each line.
std::string passes(const TensorPlan& plan, const std::vector<Node>& nodes, std::size_t layers,
                   std::size_t samples) {
  const std::vector<LayerRange> all = segments(plan, {0, nodes.size()});
  const auto bytes = [&](const SampleShape& shape) {
    return samples * shape.size() * sizeof(float);
  };
  std::string text;
  for (const LayerRange& range : all) {
    text += "    forward    " + work(range, nodes, layers) + "\n";
    const Node& last = nodes[range.end - 1];
    if (plan.sums[range.end - 1].output)
      text += formatted("  AllReduce    output of %s, %zu bytes\n", named(last).c_str(),
                        bytes(last.out));
  }
  for (auto range = all.rbegin(); range != all.rend(); ++range) {
    text += "    backward   " + work(*range, nodes, layers) + "\n";
    const Node& first = nodes[range->begin];
    if (plan.sums[range->begin].gradient)
      text += formatted("  AllReduce    input gradient of %s, %zu bytes\n", named(first).c_str(),
                        bytes(first.in));
  }
  return text;
}

} // namespace

double tensorTraffic(const std::vector<TensorPlan>& plans, const SampleShape& input, int batch,
                     int lines) {
  const SummedFloats sums = summedFloats(plans.front(), input, kAllLayers);
  const double line = 2 * static_cast<double>(plans.size() - 1) * batch *
                      static_cast<double>(sums.forward + sums.backward);
  return sizeof(float) * (line + 2.0 * (lines - 1) * static_cast<double>(learnedFloats(plans)));
}

std::string tensorPlanText(const LayerValues& layers, const SampleShape& input, const Mesh& mesh,
                           int batch) {
  const int copies = mesh.size(Axis::data);
  const std::vector<TensorPlan> plans =
      tensorPlans(layers, input, static_cast<std::size_t>(mesh.size(Axis::tensor)));
  const TensorPlan& plan = plans.front();
  Weights weights;
  const std::vector<Node> nodes = place(plan.layers, input, "", weights);
  const std::size_t samples =
      share(static_cast<std::size_t>(batch), 0, static_cast<std::size_t>(copies)).size();
  std::string text =
      meshText(mesh, Axis::tensor) +
      (copies > 1 ? " (each group holds one model)\n" : " (together they hold the model)\n") +
      slices(plan, nodes) +
      "a step of each rank (lines further left are collectives of the ranks of a line):\n" +
      passes(plan, nodes, layers.size(), samples);
  if (copies > 1)
    text += formatted(
        "  AllReduce    the slices' gradients, %zu bytes, between the %d ranks that have the "
        "same\n",
        learnedFloats({plan}) * sizeof(float), copies);
  return text +
         formatted("    update     own slices\nall ranks together send %.0f bytes in a step\n",
                   tensorTraffic(plans, input, batch, copies));
}

} // namespace rondo::training
