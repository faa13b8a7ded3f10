// The common part of the strategies zero1, zero2 and fsdp: synchronous training of a sharded model.
#pragma once

#include <memory>
#include <string>

#include "train/parallel/sharding/sharded_replica.h"
#include "train/parallel/strategy.h"

namespace rondo::training {

/// Throws Error(invalid_argument) as strategyMesh() does, for a hook other than bf16, and for a
/// batch with fewer samples than ranks x accumulate.
void checkSharded(const TrainOptions& options, int ranks);

/// Implements StrategyKind::show.
std::string showSharded(const TrainOptions& options, const Dataset& samples, int ranks,
                        const Sharding& sharding);

/// Collective. Throws the errors of ShardedReplica.
std::unique_ptr<Strategy> makeSharded(const Setup& setup, const Sharding& sharding);

} // namespace rondo::training
