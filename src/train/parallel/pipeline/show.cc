// Implements trainPipelines() and prints the cut and the timetable of a pipeline.
#include "train/loop/compute_threads.h"
#include "train/named.h"
#include "train/parallel/pipeline/diagram.h"
#include "train/parallel/pipeline/traffic.h"
#include "train/parallel/plan_text.h"

namespace rondo {

namespace {

using namespace training;

/// Along tensor, `layers` are those of the first rank.
std::string parts(const PreparedModel& prepared, const PipelineShape& shape, std::size_t samples,
                  const LayerValues& layers) {
  Weights weights;
  const CutModel& model = prepared.model;
  const std::vector<Node> nodes = place(layers, model.input, "", weights);
  std::string text;
  for (std::size_t part = 0; part < model.parts.size(); ++part) {
    const LayerRange range = model.parts[part];
    text += formatted("part %zu on stage %d: layers %zu to %zu, forward %.3f ms, backward %.3f ms",
                      part, shape.rankOf(static_cast<int>(part)), range.begin, range.end - 1,
                      prepared.costs.forward[part] * 1000, prepared.costs.backward[part] * 1000);
    if (part + 1 < model.parts.size())
      text += formatted(", sends %zu bytes a micro-batch",
                        samples * nodes[range.end - 1].out.size() * sizeof(float));
    text += "\n";
  }
  return text;
}

} // namespace

std::vector<TrainChoice> trainPipelines() { return choicesOf(pipelineKinds()); }

std::string training::showPipeline(const TrainOptions& wanted, const Dataset& samples, int ranks) {
  const ComputeThreads threads;
  const PipelineMesh where = pipelineMesh(wanted, ranks);
  const auto& [mesh, pipelines, options] = where;
  const int stages = mesh.size(Axis::pipe), shards = mesh.size(Axis::shard);
  const Timetable table = timetable(options, stages);
  const PipelineShape& shape = table.shape;
  requireUnits(options, samples, shape);
  const PreparedModel prepared = cutModel(options, samples, shape, measureUnits(where, samples));
  const double even = pipelineKind(options.pipeline.order).idle(shape);
  std::string text = formatted(
      "%s, %d stages, %d micro-batches of %zu samples: idle %.1f%% with even parts, %.1f%% "
      "with these\n",
      options.pipeline.order.c_str(), stages, shape.micro_batches, microBatch(options), even * 100,
      simulate(table, prepared.costs).idle() * 100);
  text += parts(prepared, shape, microBatch(options), ownLayers(where, samples));
  if (pipelines > 1)
    text += formatted("%d parallel pipelines, mesh %s: ", pipelines, mesh.text().c_str());
  if (shards > 1)
    text += formatted(
        "ReduceScatter of a stage's gradients between %d ranks%s, unit by unit after its last "
        "backward pass, and Allgather of its weights after the optimizer\n",
        shards, mesh.size(Axis::data) > 1 ? ", then AllReduce of each shard between groups" : "");
  else if (pipelines > 1)
    text += formatted(
        "AllReduce of a stage's gradients between its %d ranks, bucket by bucket after its last "
        "backward pass\n",
        pipelines);
  if (const std::size_t bytes = summedBytes(where, prepared.model); bytes > 0)
    text += formatted(
        "%d ranks form each stage, each with its features: AllReduce of up to %zu bytes "
        "within a micro-batch's passes\n",
        mesh.size(Axis::tensor), bytes);
  return text + "\n" + diagram(table);
}

} // namespace rondo
