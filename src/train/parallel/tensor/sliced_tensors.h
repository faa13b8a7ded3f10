// Gathers the slices of weights and optimizer arrays on the first rank of a line, and scatters them
// again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "train/aligned.h"
#include "train/loop/checkpoint.h"
#include "train/parallel/tensor/tensor_model.h"

namespace rondo::training {

/// All functions are collective over the line. One thread.
class SlicedTensors {
 public:
  /// `own` are this rank's arrays: one for each of weights() of all models, in that order, and
  /// possibly several such sequences. The name of each array ends with the name of the weight. The
  /// memory and the models must not move.
  SlicedTensors(Communicator& line, const std::vector<TensorModel*>& models,
                const std::vector<TensorMemory>& own);

  /// On the first rank of the line the arrays of the whole weights; on other ranks empty.
  const std::vector<TensorMemory>& tensors() const { return tensors_; }
  /// Copies the values of all ranks into tensors(); of a replicated weight those of the first rank.
  void gather();
  /// The name of the first replicated weight whose copies differ between ranks; "" if none.
  std::string firstDifference();
  /// Copies to each rank its slices of tensors().
  void scatter();

 private:
  /// A whole array, and this rank's slice of it.
  struct Array {
    TensorModel* model;
    const TensorModel::Whole* weight;
    float* own; ///< null if this rank has no part of it
    std::size_t own_count;
    AlignedVector<float> whole; ///< on the first rank
  };

  Communicator& line_;
  std::vector<Array> arrays_;
  std::vector<TensorMemory> tensors_;
};

/// The text of the error of Strategy::verify() for a weight that firstDifference() has found.
inline std::string unequalText(const std::string& when, const std::string& weight) {
  return when + ": the tensor-parallel ranks have different copies of " + weight +
         ", which is replicated";
}

} // namespace rondo::training
