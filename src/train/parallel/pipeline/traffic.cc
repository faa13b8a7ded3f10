#include "train/parallel/pipeline/traffic.h"

#include <algorithm>

#include "train/parallel/tensor/slices.h"

namespace rondo::training {

namespace {

/// Floats of one sample that a rank with these layers sends, summed over all cuts.
std::size_t overCuts(const LayerValues& layers, const CutModel& model) {
  Weights weights;
  const std::vector<Node> nodes = place(layers, model.input, "", weights);
  std::size_t floats = 0;
  for (const LayerRange& part : model.parts)
    if (part.end < model.layers.size()) floats += nodes[part.end - 1].out.size();
  return floats;
}

std::size_t learned(const CutModel& model) {
  Weights weights;
  place(model.layers, model.input, "", weights);
  std::size_t floats = 0;
  for (const Weight& weight : weights.learned) floats += weight.size();
  return floats;
}

std::vector<TensorPlan> slices(const PipelineMesh& mesh, const CutModel& model) {
  return tensorPlans(model.layers, model.input,
                     static_cast<std::size_t>(mesh.mesh.size(Axis::tensor)));
}

/// Floats of one sample that the ranks of a line all-reduce in a step.
double summed(const TensorPlan& plan, const CutModel& model, const Timetable& timetable) {
  double floats = 0;
  for (const std::vector<Operation>& rank : timetable.ranks)
    for (const Operation& operation : rank) {
      const SummedFloats sums =
          summedFloats(plan, model.input, model.parts[static_cast<std::size_t>(operation.part)]);
      if (operation.task == Task::forward || operation.task == Task::recompute)
        floats += static_cast<double>(sums.forward);
      if (operation.task == Task::backward) floats += static_cast<double>(sums.backward);
    }
  return floats / timetable.shape.micro_batches;
}

} // namespace

double bytesPerStep(const PipelineMesh& mesh, const CutModel& model, const Timetable& timetable) {
  const double batch = static_cast<double>(mesh.options.batch) * mesh.pipelines;
  const int lines = mesh.mesh.size(Axis::tensor);
  double passed = 0, weights = 0; // in floats
  if (lines == 1) {
    passed = static_cast<double>(overCuts(model.layers, model));
    weights = static_cast<double>(learned(model));
  } else {
    const std::vector<TensorPlan> plans = slices(mesh, model);
    for (const TensorPlan& plan : plans)
      passed += static_cast<double>(overCuts(plan.layers, model));
    passed += (lines - 1) * summed(plans.front(), model, timetable);
    weights = static_cast<double>(learnedFloats(plans));
  }
  return 2 * sizeof(float) * (batch * passed + (mesh.pipelines - 1) * weights);
}

std::size_t summedBytes(const PipelineMesh& mesh, const CutModel& model) {
  if (mesh.mesh.size(Axis::tensor) == 1) return 0;
  const TensorPlan plan = slices(mesh, model).front();
  std::size_t most = 0;
  for (const LayerRange& part : model.parts) {
    const SummedFloats sums = summedFloats(plan, model.input, part);
    most = std::max(most, sums.forward + sums.backward);
  }
  return most * microBatch(mesh.options) * sizeof(float);
}

} // namespace rondo::training
