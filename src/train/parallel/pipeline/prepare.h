// A pipeline as a run's options want it.
#pragma once

#include <string>
#include <vector>

#include "rondo/train.h"
#include "train/data/dataset.h"
#include "train/parallel/mesh.h"
#include "train/parallel/pipeline/cut.h"
#include "train/parallel/pipeline/simulate.h"
#include "train/parallel/pipeline/stage.h"

namespace rondo::training {

/// Throws Error(invalid_argument) as makeTimetable(), and for a batch that cannot be split into
/// equal micro-batches.
Timetable timetable(const TrainOptions& options, int stages);

/// Samples of a micro-batch.
std::size_t microBatch(const TrainOptions& options);

/// Pipelines beside each other, each with its share of every batch: all that differ in the axes
/// data and shard. Along tensor the ranks of a line are one stage of one pipeline together.
struct PipelineMesh {
  Mesh mesh;
  int pipelines;
  TrainOptions options; ///< of one of them: of its share
};

/// The mesh that the options name; where they name none, one pipeline of all ranks. Throws
/// Error(invalid_argument) as Mesh::parse(), for a batch that the pipelines cannot share evenly,
/// for groups with shard, and for shard, clipping or lars with tensor.
PipelineMesh pipelineMesh(const TrainOptions& options, int ranks);

/// The model's layers; along tensor with the first rank's features.
LayerValues ownLayers(const PipelineMesh& mesh, const Dataset& train);

/// measure() of the units of these.
std::vector<UnitTime> measureUnits(const PipelineMesh& mesh, const Dataset& train);

struct PreparedModel {
  CutModel model;
  PassCosts costs; ///< of the parts, in seconds
};

/// The model in as many parts as the shape has. Throws Error(invalid_argument) if it has not so
/// many units.
PreparedModel cutModel(const TrainOptions& options, const Dataset& train,
                       const PipelineShape& shape, const std::vector<UnitTime>& times);

/// What `rondo train --show-schedule` says: how the model is cut, by what its layers take on this
/// machine just now, and when each rank runs which micro-batch. Throws as cutModel().
std::string showPipeline(const TrainOptions& options, const Dataset& samples, int ranks);

/// Throws as cutModel() does, before anything is measured.
void requireUnits(const TrainOptions& options, const Dataset& train, const PipelineShape& shape);

} // namespace rondo::training
