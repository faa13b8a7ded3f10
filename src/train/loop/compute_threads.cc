#include "train/loop/compute_threads.h"

#include <cstdlib>

#include "train/layers/compute.h"

namespace rondo::training {

ComputeThreads::ComputeThreads() {
  if (std::getenv("OMP_NUM_THREADS") == nullptr && haveCpuLayers())
    outer_ = cpuLayers().setThreads(1);
}

ComputeThreads::~ComputeThreads() {
  if (outer_ > 0) cpuLayers().setThreads(outer_);
}

} // namespace rondo::training
