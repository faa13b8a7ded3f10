// The common part of the strategies zero1, zero2 and fsdp: synchronous training of a sharded model.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "train/parallel/sharding/sharded_replica.h"
#include "train/parallel/strategy.h"

namespace rondo::training {

/// Throws Error(invalid_argument) as strategyMesh() does, for a hook other than bf16, and for a
/// batch with fewer samples than ranks x accumulate.
void checkSharded(const TrainOptions& options, int ranks);

/// Implements StrategyKind::show.
std::string showSharded(const TrainOptions& options, const Dataset& samples, int ranks,
                        ShardLevel level);

/// Collective. Throws the errors of ShardedReplica.
std::unique_ptr<Strategy> makeSharded(const Setup& setup, ShardLevel level);

template <ShardLevel level>
constexpr StrategyKind shardedKind(std::string_view name, std::string_view summary,
                                   int redundancy) {
  return {.name = name,
          .summary = summary,
          .check = checkSharded,
          .make = [](const Setup& setup) { return makeSharded(setup, level); },
          .show = [](const TrainOptions& options, const Dataset& samples,
                     int ranks) { return showSharded(options, samples, ranks, level); },
          .sharded = true,
          .redundancy = redundancy};
}

} // namespace rondo::training
