// What the servers hold, whole on rank 0 for a checkpoint, and back.
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

namespace rondo::training::servers {

/// Of each kind of array that the optimizer keeps ("velocity") one in the layout of the keys, which
/// lies in parts on the servers. Rank 0 is a server.
class ServerState {
 public:
  /// What is passed must live as long.
  ServerState(Communicator& comm, const Keys& keys, Replica& replica,
              std::deque<PieceServer>& pieces);

  /// Collective. Of an array in the layout of the keys every rank gets each server's range.
  void allGather(float* values);
  /// Collective. Rank 0 gets what the optimizers of all servers keep.
  void gather();
  /// Collective. Every server gets its part of what rank 0 has.
  void scatter();
  /// On rank 0 the replica's values and what gather() got, by weights; on others the values.
  std::vector<TensorMemory> tensors();

 private:
  Blocks blocks() const { return {counts_, offsets_}; }
  void learnKinds();
  /// Calls copy(array of the optimizer, its keys in the range's part of arrays_[kind]).
  template <class Copy>
  void forEach(const Copy& copy);

  Communicator& comm_;
  Replica& replica_;
  std::deque<PieceServer>& pieces_;
  std::vector<std::size_t> counts_, offsets_; ///< of each rank's keys
  std::vector<std::string> kinds_;            ///< on rank 0
  std::vector<AlignedVector<float>> arrays_;  ///< by kind: on rank 0 of all keys, else of the range
};

} // namespace rondo::training::servers
