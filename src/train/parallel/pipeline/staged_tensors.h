// Tensors of which each rank has some, on their way to rank 0 and back.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "rondo/communicator.h"
#include "train/loop/checkpoint.h"
#include "train/parallel/tensor/sliced_tensors.h"

namespace rondo::training {

/// All functions are collective; the tensors of two ranks have different names. One thread.
class StagedTensors {
 public:
  /// Rank 0 gets to know what the others have. The memory must stay where it is. With `sliced` it
  /// is those tensors in place of `own`: they come together behind this rank first.
  StagedTensors(Communicator& comm, std::vector<TensorMemory> own,
                std::unique_ptr<SlicedTensors> sliced);

  /// Rank 0 gets the values of all.
  void gather();
  /// Each rank gets the values of its own from rank 0.
  void scatter();

  /// On rank 0 all of them, its own where they stand; elsewhere the rank's own.
  const std::vector<TensorMemory>& tensors() const { return all_; }

 private:
  /// The tensors of one rank among those of all.
  struct Share {
    std::size_t begin, end;
  };

  void addOthers(std::span<const char> text);
  void collect();
  void deal();

  Communicator& comm_;
  std::unique_ptr<SlicedTensors> sliced_;
  std::vector<TensorMemory> all_;
  std::vector<Share> shares_; ///< of each rank; rank 0's
  std::vector<std::vector<float>> memory_;
};

} // namespace rondo::training
