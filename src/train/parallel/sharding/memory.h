// Computes the maximum memory that a rank needs for its part of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rondo/train_options.h"
#include "train/parallel/sharding/layout.h"

namespace rondo::training {

/// What is sharded between the ranks. Each level also shards everything that the levels above it in
/// this list shard.
enum class ShardLevel {
  optimizer,  ///< ZeRO-1
  gradients,  ///< ZeRO-2
  parameters, ///< ZeRO-3
};

/// The caps of the units of a run, for shardLayout().
std::vector<std::size_t> unitBytes(const TrainOptions& options, ShardLevel level);

/// Maximum number of bytes that a rank holds at any time. Excludes activations, workspace of the
/// compute library, and running statistics of batch norm.
struct ModelMemory {
  std::size_t parameters = 0, gradients = 0, optimizer = 0;
  std::size_t slots = 0; ///< memory for whole units that are gathered or reduced

  std::size_t total() const { return parameters + gradients + optimizer + slots; }
  bool operator==(const ModelMemory&) const = default;
};

/// Which slots hold a unit's whole parameters and gradients while they are needed. If parameters
/// are sharded, the backward pass needs three slots: one for the unit's parameters, one for its
/// gradients, and one for the gradients of the next unit, which are being reduced; later the
/// parameters of the previous unit take that slot. If only gradients are sharded, two slots
/// suffice: one is filled while the other is being reduced.
///
///   unit j:  parameters in slot j mod 3, gradients in slot (j + 1) mod 3; or gradients in j mod 2
struct ShardSlots {
  static constexpr std::size_t kOfParameters = 3, kOfGradients = 2;

  static std::size_t parameters(std::size_t unit) { return unit % kOfParameters; }
  static std::size_t gradients(std::size_t unit, ShardLevel level) {
    return level == ShardLevel::parameters ? (unit + 1) % kOfParameters : unit % kOfGradients;
  }
  /// Elements of each slot: the size of the largest unit that uses it.
  static std::vector<std::size_t> sizes(const ShardLayout& layout, ShardLevel level);
};

struct MemoryQuestion {
  ShardLevel level;
  std::size_t rank = 0;
  std::size_t arrays = 1;   ///< floats that the optimizer keeps for each element
  bool accumulates = false; ///< over micro-batches: sums are kept in addition to incoming gradients
  bool narrow = false;      ///< parameters are sent as bfloat16
};

/// With a rank's own elements O, all elements M, and A arrays of the optimizer, in floats (the
/// optimizer's arrays have no padding):
///
///   optimizer    M + M + A O
///   gradients    M + O + A O + slots     slots <= 2 units
///   parameters   O + O + A O + slots     slots <= 3 units
///
/// Plus O if micro-batches are accumulated, and O / 2 if parameters are sent as bfloat16.
ModelMemory predictedMemory(const ShardLayout& layout, const MemoryQuestion& question);

/// Memory of a rank that holds the whole model, as in ddp. `layout` must be that of one rank.
ModelMemory wholeMemory(const ShardLayout& layout, std::size_t arrays, bool accumulates);

/// Throws Error(invalid_argument), which states the limit and the need, if the need is above the
/// limit. A limit of 0 means no limit.
void requireFits(const std::string& strategy, const ModelMemory& need, std::uint64_t limit_bytes);

} // namespace rondo::training
