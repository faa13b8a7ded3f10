#include "train/parallel/tensor/plan.h"

#include <array>
#include <cstdio>

namespace rondo::training {

namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 256> line;
  std::snprintf(line.data(), line.size(), format, values...);
  return line.data();
}

std::string lines(const Mesh& mesh) {
  std::string text = "mesh " + mesh.text() + ":";
  for (int rank = 0; rank < mesh.size(); ++rank) {
    if (mesh.coordinate(Axis::tensor, rank) != 0) continue;
    text += rank == 0 ? " ranks" : "; ranks";
    for (int other : mesh.neighbours({Axis::tensor}, rank)) text += " " + std::to_string(other);
  }
  return text + (mesh.size(Axis::data) > 1 ? " have a model together each\n"
                                           : " have the model together\n");
}

/// Of the first rank of a line.
std::string slices(const TensorPlan& plan, const std::vector<Node>& nodes) {
  std::string text;
  auto weight = plan.weights.begin();
  for (const Node& node : nodes) {
    if (node.weights.empty()) continue;
    const Range own = weight->own;
    if (weight->everywhere) text += "layer " + node.path + ": whole on every rank\n";
    else
      text += formatted("layer %s: by %s, rank 0 has %zu to %zu of %zu\n", node.path.c_str(),
                        weight->outer == 1 ? "columns" : "rows", own.begin, own.end - 1,
                        weight->features);
    weight += static_cast<std::ptrdiff_t>(node.weights.size());
  }
  return text;
}

/// The passes of a step with `samples` on each line.
std::string passes(const TensorPlan& plan, const std::vector<Node>& nodes, std::size_t samples) {
  const std::vector<LayerRange> all = segments(plan, {0, nodes.size()});
  const auto bytes = [&](const SampleShape& shape) {
    return samples * shape.size() * sizeof(float);
  };
  std::string text;
  for (const LayerRange& range : all) {
    text += formatted("    forward    layers %zu to %zu\n", range.begin, range.end - 1);
    const std::size_t last = range.end - 1;
    if (plan.sums[last].output)
      text += formatted("  AllReduce    what layer %zu makes, %zu bytes\n", last,
                        bytes(nodes[last].out));
  }
  for (auto range = all.rbegin(); range != all.rend(); ++range) {
    text += formatted("    backward   layers %zu to %zu\n", range->begin, range->end - 1);
    if (plan.sums[range->begin].gradient)
      text += formatted("  AllReduce    the gradient in front of layer %zu, %zu bytes\n",
                        range->begin, bytes(nodes[range->begin].in));
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
  std::string text = lines(mesh) + slices(plan, nodes) +
                     "a step of each rank (what stands left is between the ranks of a line):\n" +
                     passes(plan, nodes, samples);
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
