// Gathers tensors that are distributed over the ranks to rank 0, and scatters them again.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "train/loop/checkpoint.h"
#include "train/parallel/tensor/sliced_tensors.h"

namespace rondo::training {

/// All functions are collective. Tensors on different ranks must have different names. One thread.
class StagedTensors {
 public:
  /// Sends names and shapes of all ranks' tensors to rank 0. The memory of the tensors must not
  /// move. If `sliced` is not null its tensors replace `own`: gather() first assembles them from
  /// the slices of this rank's line, and scatter() slices them again.
  StagedTensors(Communicator& comm, std::vector<TensorMemory> own,
                std::unique_ptr<SlicedTensors> sliced);

  /// Copies the values of all tensors to rank 0.
  void gather();
  /// Sends each rank the values of its tensors from rank 0.
  void scatter();

  /// SlicedTensors::firstDifference() of this rank's line; "" without slices.
  std::string firstDifference() { return sliced_ ? sliced_->firstDifference() : ""; }

  /// On rank 0 all tensors, its own without a copy; on other ranks their own.
  const std::vector<TensorMemory>& tensors() const { return all_; }

 private:
  /// The range of one rank's tensors in all_.
  struct Share {
    std::size_t begin, end;
  };

  void addOthers(std::span<const char> text);
  void collect();
  void deal();

  Communicator& comm_;
  std::unique_ptr<SlicedTensors> sliced_;
  std::vector<TensorMemory> all_;
  std::vector<Share> shares_; ///< of each rank; on rank 0 only
  std::vector<std::vector<float>> memory_;
};

} // namespace rondo::training
