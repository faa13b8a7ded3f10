// Arrays beside the weights of cut layers, whole on the line's first rank.
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
  /// `own` are this rank's arrays beside all weights() of the models, in that order, once or
  /// several times over; the names of each end with the weight's. The memory must stay where it is,
  /// and the models too.
  SlicedTensors(Communicator& line, const std::vector<TensorModel*>& models,
                const std::vector<TensorMemory>& own);

  /// On the line's first rank those of the whole weights; elsewhere none.
  const std::vector<TensorMemory>& tensors() const { return tensors_; }
  /// They get the ranks' values.
  void gather();
  /// The ranks get theirs.
  void scatter();

 private:
  /// A whole array, and what this rank has of it.
  struct Array {
    TensorModel* model;
    const TensorModel::Whole* weight;
    float* own; ///< null: nothing
    std::size_t own_count;
    AlignedVector<float> whole; ///< on the first rank
  };

  Communicator& line_;
  std::vector<Array> arrays_;
  std::vector<TensorMemory> tensors_;
};

} // namespace rondo::training
