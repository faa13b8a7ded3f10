// Computes the bytes that a pipeline sends.
#pragma once

#include "train/parallel/pipeline/prepare.h"

namespace rondo::training {

/// Bytes that all ranks of all pipelines together send in one step, by the formula at the head of
/// pipeline.cc.
double bytesPerStep(const PipelineMesh& mesh, const CutModel& model, const Timetable& timetable);

/// Bytes that the ranks of a stage all-reduce for one micro-batch, for the part with the largest
/// sum. 0 without the axis tensor.
std::size_t summedBytes(const PipelineMesh& mesh, const CutModel& model);

} // namespace rondo::training
