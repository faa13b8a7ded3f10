// Arrays of which each rank has values of its own, on their way into and out of a checkpoint.
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

/// On rank 0 also those of all ranks, of each array one rank's behind the other's: shape
/// [ranks x count]. The ranks name the same arrays in the same order.
class OwnArrays {
 public:
  OwnArrays(Communicator& comm, std::vector<OwnArray> arrays);

  bool any() const { return !own_.empty(); }
  /// Collective. Rank 0 gets what all ranks have.
  void gather();
  /// Collective. Each rank gets its part of what rank 0 has.
  void scatter();
  /// On rank 0 adds what gather() got, to be written or filled; the memory is this object's.
  void describe(std::vector<TensorMemory>& into);

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(comm_.size()); }
  float* whole(std::size_t i) { return comm_.rank() == 0 ? all_[i].data() : nullptr; }

  Communicator& comm_;
  std::vector<OwnArray> own_;
  std::vector<std::vector<float>> all_;
};

} // namespace rondo::training
