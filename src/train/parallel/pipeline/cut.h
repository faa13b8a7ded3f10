// Where a model is cut into the parts of a pipeline.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/layers/values.h"
#include "train/models/network.h"

namespace rondo::training {

/// Runs of layers that stay together, one behind the other: each but the first begins with a linear
/// layer, a convolution or a residual. So a batch norm stays with its convolution, of which
/// evaluation makes one layer; an activation with what it is an activation of; and nothing is cut
/// inside a residual, whose two ways would both have to be sent.
std::vector<LayerRange> units(const LayerValues& layers);

/// What the passes of one micro-batch took, in seconds.
struct UnitTime {
  double forward, backward;
};

/// By what passes are measured, in seconds. Where this thread computes, its processor time: what
/// other programs do on the machine meanwhile does not count. Where a GPU does, the time that
/// passes: a pass ends when the device has, for which the thread only waits.
double passClock(const Compute& compute);

/// Runs each unit by itself, forward and back, on so many made-up samples: the fastest of some
/// passes. Measured rather than counted in operations, since a core does a
/// convolution's several times as fast as those of a linear layer, whose weights it must read.
std::vector<UnitTime> measure(const LayerValues& layers, const SampleShape& input,
                              std::span<const LayerRange> units, std::size_t samples,
                              Compute compute = {});

/// Runs of consecutive items, so many, of which the most expensive is as cheap as can be; gives the
/// items of each. There must be as many items at least.
std::vector<LayerRange> cutEvenly(std::span<const double> costs, std::size_t parts);

} // namespace rondo::training
