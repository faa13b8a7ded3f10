// Gathers the state of all servers to rank 0 for a checkpoint, and scatters it again.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "train/aligned.h"
#include "train/loop/checkpoint.h"
#include "train/loop/replica.h"
#include "train/parallel/ps/keys.h"
#include "train/parallel/ps/piece_server.h"
#include "train/parallel/strategy.h"

namespace rondo::training::servers {

/// For each kind of array that the optimizer keeps ("velocity"), one array in the layout of the
/// keys, of which each server has its range. Rank 0 is a server.
class ServerState {
 public:
  /// The arguments must outlive this object.
  ServerState(Communicator& comm, const Keys& keys, Replica& replica,
              std::deque<PieceServer>& pieces);

  /// Collective. Gives every rank the ranges of all servers, for an array in the layout of the
  /// keys.
  void allGather(float* values);
  /// Collective. Copies the optimizer state of all servers to rank 0.
  void gather();
  /// Collective. Copies to every server its range of rank 0's arrays.
  void scatter();
  /// Not collective. This rank's range of the servers' values and of the optimizer state; valid at
  /// a synchronization point.
  std::vector<StatePart> held();
  /// On rank 0 the values of the replica and the gathered optimizer state, by weight; on other
  /// ranks the values only.
  std::vector<TensorMemory> tensors();

 private:
  Blocks blocks() const { return {counts_, offsets_}; }
  void learnKinds();
  /// Calls copy(array of the optimizer, the same keys in arrays_[kind]) for all arrays.
  template <class Copy>
  void forEach(const Copy& copy);

  Communicator& comm_;
  Replica& replica_;
  std::deque<PieceServer>& pieces_;
  std::vector<std::size_t> counts_, offsets_; ///< range of each rank's keys
  std::vector<std::string> kinds_;            ///< name prefixes; on rank 0 only
  /// By kind: on rank 0 all keys, on other ranks their range.
  std::vector<AlignedVector<float>> arrays_;
};

} // namespace rondo::training::servers
