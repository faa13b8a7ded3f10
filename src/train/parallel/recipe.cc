#include "train/parallel/recipe.h"

#include <algorithm>

#include "rondo/detail/hash.h"
#include "rondo/error.h"

namespace rondo::training {

OptimizerSettings optimizerSettings(const TrainOptions& options) {
  return {.momentum = options.optimizer.momentum,
          .nesterov = options.optimizer.nesterov,
          .weight_decay = options.optimizer.weight_decay};
}

Schedule schedule(const TrainOptions& options, std::int64_t total_steps) {
  const auto total = static_cast<std::uint64_t>(total_steps);
  const bool scales = options.optimizer.base_batch > 0;
  const auto batch = static_cast<std::uint64_t>(options.batch);
  const auto base = static_cast<std::uint64_t>(options.optimizer.base_batch);
  return {.kind = scheduleKind(options.optimizer.schedule),
          .rate = scales ? scalingRule(options.optimizer.scaling)
                               .scaled(options.optimizer.learning_rate, batch, base)
                         : options.optimizer.learning_rate,
          .warmup_rate = scales ? options.optimizer.learning_rate : 0,
          .warmup_steps = static_cast<std::uint64_t>(options.optimizer.warm_up),
          .step_length = std::max<std::uint64_t>((total + 2) / 3, 1),
          .total_steps = total};
}

GradientOptions reduction(const TrainOptions& options) {
  GradientOptions to;
  to.average = false;
  to.follow_observed_order = false;
  to.bucket_bytes = options.gradients.bucket_bytes;
  to.overlap = options.gradients.overlap;
  return to;
}

Pass passOf(const TrainOptions& options, std::int64_t done) {
  return {.seed = detail::mix(options.seed + detail::mix(static_cast<std::uint64_t>(done))),
          .sum_over_ranks = {}};
}

Pass passOf(const TrainOptions& options, std::int64_t done, Communicator& comm) {
  Pass pass = passOf(options, done);
  if (options.sync_batch_norm)
    pass.sum_over_ranks = [&comm](float* values, std::size_t count) {
      comm.allReduce(values, values, count, DataType::float32, ReduceOp::sum);
    };
  return pass;
}

void requireParts(const TrainOptions& options, std::int64_t parts, const std::string& what) {
  if (options.batch < parts)
    throw Error(ErrorCode::invalid_argument, "train: batch is " + std::to_string(options.batch) +
                                                 ", must be at least " + what + ", " +
                                                 std::to_string(parts));
}

void requireSliceable(const TrainOptions& options) {
  if (options.optimizer.name == "lars")
    throw Error(ErrorCode::invalid_argument,
                "train: optimizer lars cannot train with axis tensor: it is not "
                "implemented for slices, whose norms it would have to sum");
}

} // namespace rondo::training
