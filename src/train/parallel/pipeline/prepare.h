// Derives mesh, timetable and cut of a pipeline from the options of a run.
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

/// The timetable of the options. Throws Error(invalid_argument) as makeTimetable() does.
Timetable timetable(const TrainOptions& options, int stages);

/// Number of samples in a micro-batch.
std::size_t microBatch(const TrainOptions& options);

/// Several parallel pipelines, each with its share of every batch: one for each pair of coordinates
/// on the axes data and shard. Along tensor the ranks of a line form one stage of one pipeline.
struct PipelineMesh {
  Mesh mesh;
  int pipelines;
  TrainOptions options; ///< options of one pipeline, with its share of the batch
};

/// The mesh that the options name, by default one pipeline of all ranks. Throws
/// Error(invalid_argument) as Mesh::parse() does, for a batch that the pipelines cannot share in
/// micro-batches of one size, for groups together with shard, and for tensor together with shard,
/// clipping or lars.
PipelineMesh pipelineMesh(const TrainOptions& options, int ranks);

/// The layers of the model; along tensor with the features of the first rank.
LayerValues ownLayers(const PipelineMesh& mesh, const Dataset& train);

/// Calls measure() for the units of ownLayers().
std::vector<UnitTime> measureUnits(const PipelineMesh& mesh, const Dataset& train);

struct PreparedModel {
  CutModel model;
  PassCosts costs; ///< of each part, in seconds
};

/// Cuts the model into as many parts as the shape has. Throws Error(invalid_argument) if the model
/// has fewer units than that.
PreparedModel cutModel(const TrainOptions& options, const Dataset& train,
                       const PipelineShape& shape, const std::vector<UnitTime>& times);

/// The text of `rondo train --show-schedule`: where the model is cut, according to the times of its
/// layers measured on this machine now, and when each rank runs which micro-batch. Throws as
/// cutModel() does.
std::string showPipeline(const TrainOptions& options, const Dataset& samples, int ranks);

/// Throws as cutModel() does, before anything is measured.
void requireUnits(const TrainOptions& options, const Dataset& train, const PipelineShape& shape);

} // namespace rondo::training
