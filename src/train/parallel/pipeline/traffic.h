// What a pipeline sends, by formula.
#pragma once

#include "train/parallel/pipeline/prepare.h"

namespace rondo::training {

/// Bytes that all ranks together send in a step of the timetable, in all pipelines: those at the
/// head of pipeline.cc.
double bytesPerStep(const PipelineMesh& mesh, const CutModel& model, const Timetable& timetable);

/// Bytes that the ranks of a stage take part in summing up in a micro-batch, of the part with the
/// most; 0 without the axis tensor.
std::size_t summedBytes(const PipelineMesh& mesh, const CutModel& model);

} // namespace rondo::training
