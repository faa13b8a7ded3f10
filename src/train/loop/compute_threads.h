// Limits each rank to one compute thread.
#pragma once

namespace rondo::training {

/// While this exists, oneDNN uses one thread for computations of the calling thread, so that ranks
/// do not compete for the cores. If OMP_NUM_THREADS is set, it decides instead. Does nothing where
/// oneDNN cannot be loaded.
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
