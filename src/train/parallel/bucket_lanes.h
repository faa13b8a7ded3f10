// Adds the time of each bucket of a GradientReducer to the timeline of a step.
#pragma once

#include <chrono>
#include <string>

#include "rondo/gradients.h"
#include "train/loop/stopwatch.h"

namespace rondo::training {

/// Adds the buckets of the last step. The step began at `began`.
inline void showBuckets(const GradientReducer& reducer, Clock::time_point began,
                        Timeline& timeline) {
  for (const GradientBucketTimes& bucket : reducer.timeline()) {
    const std::chrono::duration<double> begin(bucket.begin);
    timeline.add("bucket " + std::to_string(bucket.bucket), Lane::communication,
                 began + std::chrono::duration_cast<Clock::duration>(begin),
                 bucket.end - bucket.begin, bucket.bytes);
  }
}

} // namespace rondo::training
