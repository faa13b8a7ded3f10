// How much of a model a rank holds at most, in closed form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "train/parallel/sharding/layout.h"

namespace rondo::training {

/// What the ranks share out; each level shares out what stands before it, too.
enum class ShardLevel {
  optimizer,  ///< ZeRO-1
  gradients,  ///< ZeRO-2
  parameters, ///< ZeRO-3
};

/// Bytes that a rank holds at most at any time. Activations, what the library computes with and
/// batch norm's running statistics are not in it.
struct ModelMemory {
  std::size_t parameters = 0, gradients = 0, optimizer = 0;
  std::size_t slots = 0; ///< where whole units come and go

  std::size_t total() const { return parameters + gradients + optimizer + slots; }
  bool operator==(const ModelMemory&) const = default;
};

/// Where a unit's whole parameters and gradients lie while they are needed. Three slots for units
/// whose parameters come and go: on the way back a unit's parameters, its gradients, and beside
/// these the gradients of the unit behind, on their way, and after them the parameters of the unit
/// in front. Two for gradients alone: one is filled while the other is on its way.
///
///   unit j:  parameters in slot j mod 3, gradients in slot (j + 1) mod 3; or gradients in j mod 2
struct ShardSlots {
  static constexpr std::size_t kOfParameters = 3, kOfGradients = 2;

  static std::size_t parameters(std::size_t unit) { return unit % kOfParameters; }
  static std::size_t gradients(std::size_t unit, ShardLevel level) {
    return level == ShardLevel::parameters ? (unit + 1) % kOfParameters : unit % kOfGradients;
  }
  /// Elements of each slot: as large as the largest that ever lies in it.
  static std::vector<std::size_t> sizes(const ShardLayout& layout, ShardLevel level);
};

struct MemoryQuestion {
  ShardLevel level;
  std::size_t rank = 0;
  std::size_t arrays = 1;   ///< floats that the optimizer keeps for each element
  bool accumulates = false; ///< over micro-batches: sums are kept beside what comes in
  bool narrow = false;      ///< parameters travel as bfloat16
};

/// With a rank's own elements O, all elements M, and the optimizer's arrays A, in floats (and the
/// optimizer's without what fills weights up to a grain):
///
///   optimizer    M + M + A O
///   gradients    M + O + A O + slots     slots <= 2 units
///   parameters   O + O + A O + slots     slots <= 3 units
///
/// and O more where micro-batches are accumulated, O / 2 where parameters travel as bfloat16.
ModelMemory predictedMemory(const ShardLayout& layout, const MemoryQuestion& question);

/// Of a rank that holds all itself, as ddp's do: the layout is of one rank.
ModelMemory wholeMemory(const ShardLayout& layout, std::size_t arrays, bool accumulates);

/// Throws Error(invalid_argument) that names the limit and what the run needs. 0: no limit.
void requireFits(const std::string& strategy, const ModelMemory& need, std::uint64_t limit_bytes);

} // namespace rondo::training
