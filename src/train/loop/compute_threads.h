// One compute thread a rank.
#pragma once

namespace rondo::training {

/// What the calling thread computes with oneDNN runs on one thread while this exists, so that
/// several ranks do not fight for the cores; OMP_NUM_THREADS, where it is set, is obeyed instead.
class ComputeThreads {
 public:
  ComputeThreads();
  ~ComputeThreads();
  ComputeThreads(const ComputeThreads&) = delete;
  ComputeThreads& operator=(const ComputeThreads&) = delete;

 private:
  int outer_ = 0; ///< 0: nothing to restore
};

} // namespace rondo::training
