#include "train/parallel/pipeline/prepare.h"

#include "rondo/error.h"
#include "train/models/model.h"
#include "train/parallel/recipe.h"
#include "train/parallel/tensor/slices.h"

namespace rondo::training {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "train: pipeline: " + what);
}

LayerValues layersOf(const TrainOptions& options, const Dataset& train) {
  return model(options.model, train.shape, train.classes);
}

} // namespace

Timetable timetable(const TrainOptions& options, int stages) {
  const PipelineKind& kind = pipelineKind(options.pipeline.order);
  const int laps = options.pipeline.laps;
  if (!kind.laps && laps != 1 && laps != TrainOptions().pipeline.laps)
    refuse("laps is " + std::to_string(laps) + ", but order " + options.pipeline.order +
           " has one part of the model per rank: use interleaved");
  return makeTimetable(kind, {.stages = stages,
                              .micro_batches = options.accumulate,
                              .laps = laps,
                              .recompute = options.pipeline.recompute});
}

std::size_t microBatch(const TrainOptions& options) {
  return static_cast<std::size_t>(options.batch / options.accumulate);
}

PipelineMesh pipelineMesh(const TrainOptions& options, int ranks) {
  const Mesh mesh =
      strategyMesh(options, ranks, Axis::pipe, {Axis::data, Axis::shard, Axis::tensor});
  const std::string named = "mesh \"" + options.sharding.mesh + "\": ";
  const int pipelines = mesh.size(Axis::data) * mesh.size(Axis::shard);
  if (mesh.size(Axis::shard) > 1 && options.gradients.groups > 1)
    refuse(named + "groups is " + std::to_string(options.gradients.groups) +
           ", but with axis shard a stage uses one communicator: set groups to 1");
  if (mesh.size(Axis::tensor) > 1) {
    if (mesh.size(Axis::shard) > 1)
      refuse(named + "slices of axis tensor cannot be sharded: use one of shard and tensor");
    if (options.optimizer.clip > 0) refuse(named + "axis tensor does not support clip");
    requireSliceable(options);
  }
  if (options.batch % pipelines != 0)
    refuse(named + "batch is " + std::to_string(options.batch) + ", must be a multiple of its " +
           std::to_string(pipelines) + " pipelines");
  PipelineMesh result{mesh, pipelines, options};
  result.options.batch /= pipelines;
  if (result.options.batch % options.accumulate != 0)
    refuse("batch is " + std::to_string(options.batch) + ", must be a multiple of " +
           (pipelines > 1 ? "the number of pipelines, " + std::to_string(pipelines) + ", times "
                          : "") +
           "accumulate, " + std::to_string(options.accumulate) + " micro-batches of one size");
  return result;
}

void requireUnits(const TrainOptions& options, const Dataset& train, const PipelineShape& shape) {
  const std::size_t most = units(layersOf(options, train)).size();
  if (static_cast<std::size_t>(shape.parts()) > most)
    refuse(std::to_string(shape.stages) + " stages with " + std::to_string(shape.laps) +
           (shape.laps == 1 ? " part" : " parts") + " each, but model " + options.model +
           " can be cut into " + std::to_string(most) + " parts at most");
}

LayerValues ownLayers(const PipelineMesh& mesh, const Dataset& train) {
  const LayerValues layers = layersOf(mesh.options, train);
  const auto line = static_cast<std::size_t>(mesh.mesh.size(Axis::tensor));
  return line > 1 ? tensorPlan(layers, train.shape, line, 0).layers : layers;
}

std::vector<UnitTime> measureUnits(const PipelineMesh& mesh, const Dataset& train) {
  const LayerValues layers = ownLayers(mesh, train);
  return measure(layers, train.shape, units(layers), microBatch(mesh.options),
                 computeOf(mesh.options.device, mesh.options.precision, 0));
}

PreparedModel cutModel(const TrainOptions& options, const Dataset& train,
                       const PipelineShape& shape, const std::vector<UnitTime>& times) {
  requireUnits(options, train, shape);
  const LayerValues layers = layersOf(options, train);
  const std::vector<LayerRange> all = units(layers);
  std::vector<double> costs;
  for (const UnitTime& time : times) costs.push_back(time.forward + time.backward);
  PreparedModel prepared{
      {layers, train.shape, {}, options.seed, computeOf(options.device, options.precision, 0)}, {}};
  for (const LayerRange& items : cutEvenly(costs, static_cast<std::size_t>(shape.parts()))) {
    prepared.model.parts.push_back({all[items.begin].begin, all[items.end - 1].end});
    double forward = 0, backward = 0;
    for (std::size_t i = items.begin; i < items.end; ++i) {
      forward += times[i].forward;
      backward += times[i].backward;
    }
    prepared.costs.forward.push_back(forward);
    prepared.costs.backward.push_back(backward);
  }
  return prepared;
}

} // namespace rondo::training
