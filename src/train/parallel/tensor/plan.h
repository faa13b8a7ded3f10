// Prints a step of tensor parallelism, and computes the bytes that it sends.
#pragma once

#include <string>
#include <vector>

#include "train/parallel/mesh.h"
#include "train/parallel/tensor/slices.h"

namespace rondo::training {

/// Bytes that `lines` lines of ranks with these plans send together in a step of `batch` samples.
double tensorTraffic(const std::vector<TensorPlan>& plans, const SampleShape& input, int batch,
                     int lines);

/// Prints how each layer is cut, the passes and sums of a step, and the bytes sent.
std::string tensorPlanText(const LayerValues& layers, const SampleShape& input, const Mesh& mesh,
                           int batch);

} // namespace rondo::training
