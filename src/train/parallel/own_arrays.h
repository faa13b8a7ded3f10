// Gathers arrays that have different values on each rank, to save them in a checkpoint, and
// scatters them again.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "train/loop/checkpoint.h"

namespace rondo::training {

struct OwnArray {
  std::string name;
  std::span<float> values;
};

/// Rank 0 also holds the arrays of all ranks, concatenated in rank order: shape [ranks x count].
/// All ranks must pass the same arrays, by name and size, in the same order.
class OwnArrays {
 public:
  OwnArrays(Communicator& comm, std::vector<OwnArray> arrays);

  bool any() const { return !own_.empty(); }
  /// Collective. Copies the arrays of all ranks to rank 0.
  void gather();
  /// Collective. Copies to each rank its part of rank 0's arrays.
  void scatter();
  /// On rank 0, appends the gathered arrays, to be saved or overwritten. This object owns the
  /// memory.
  void describe(std::vector<TensorMemory>& into);

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(comm_.size()); }
  float* whole(std::size_t i) { return comm_.rank() == 0 ? all_[i].data() : nullptr; }

  Communicator& comm_;
  std::vector<OwnArray> own_;
  std::vector<std::vector<float>> all_;
};

} // namespace rondo::training
