// A step of ranks with cut features, as text, and what it sends.
#pragma once

#include <string>
#include <vector>

#include "train/parallel/mesh.h"
#include "train/parallel/tensor/slices.h"

namespace rondo::training {

/// Bytes that so many lines of ranks with these plans send in a step of `batch` samples, all
/// together.
double tensorTraffic(const std::vector<TensorPlan>& plans, const SampleShape& input, int batch,
                     int lines);

/// How each layer is cut, the step's passes and sums, and bytes sent: for people.
std::string tensorPlanText(const LayerValues& layers, const SampleShape& input, const Mesh& mesh,
                           int batch);

} // namespace rondo::training
