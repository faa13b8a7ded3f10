// What a reducer's buckets took, for a step's timeline.
#pragma once

#include <chrono>
#include <string>

#include "rondo/gradients.h"
#include "train/loop/stopwatch.h"

namespace rondo::training {

/// Those of the last step, which began then.
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
