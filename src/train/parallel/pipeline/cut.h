// Decides where a model is cut into the parts of a pipeline.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/layers/values.h"
#include "train/models/network.h"

namespace rondo::training {

/// Divides the layers into units that are never cut. Each unit except the first begins with a
/// linear layer, a convolution or a residual. So a batch norm stays with its convolution
/// (evaluation fuses the two), an activation stays with the layer before it, and a residual is
/// never cut inside, where both of its branches would have to be sent.
std::vector<LayerRange> units(const LayerValues& layers);

/// Durations of the passes of one micro-batch through a unit, in seconds.
struct UnitTime {
  double forward, backward;
};

/// The clock that measures passes, in seconds. On the CPU it is the processor time of this thread,
/// so that other programs on the machine do not count. With a GPU it is the elapsed time: a pass
/// ends when the device has finished, and the thread only waits.
double passClock(const Compute& compute);

/// Runs each unit alone, forward and backward, on `samples` random samples, and returns the
/// shortest times of a few passes. Units are measured because counting operations would mislead: a
/// core performs the operations of a convolution several times as fast as those of a linear layer,
/// whose weights it must read.
std::vector<UnitTime> measure(const LayerValues& layers, const SampleShape& input,
                              std::span<const LayerRange> units, std::size_t samples,
                              Compute compute = {});

/// Divides the items into `parts` runs of consecutive items such that the cost of the most
/// expensive run is minimal. Returns the items of each run. Requires 1 <= parts <= items.
std::vector<LayerRange> cutEvenly(std::span<const double> costs, std::size_t parts);

} // namespace rondo::training
