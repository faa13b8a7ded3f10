// Tasks of data-parallel and sharded training.
#include "tools/simulate_train_steps.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "gradients/assign.h"
#include "rondo/collectives.h"
#include "rondo/error.h"
#include "tools/simulate_train_pipeline.h"
#include "tools/simulate_train_ranks.h"
#include "train/parallel/sharding/plan.h"

namespace rondo::tools {

namespace {

using Tasks = std::vector<std::uint32_t>;
using training::ShardLevel;
using training::ShardTask;

/// Training steps in which all ranks do the same, but stragglers more slowly. Ranks that take the
/// same time share one resource for their passes; the network is one more.
class DataParallel {
 public:
  explicit DataParallel(const StepQuestion& question)
      : question_(question),
        model_(question.model),
        ranks_(question.options,
               differentRanks(question.options, question.ranks, !question.processors.empty()),
               question.processors, steps_.graph) {
    steps_.ranks = ranks_.numbers();
    ranks_.computes(model_.data, question.options.accumulate * model_.forward(),
                    question.options.accumulate * model_.backward(), model_.optimizer);
    network_ = {steps_.graph.addResource({.owner = "network", .name = "collectives"})};
    if (question.one_processor)
      network_.insert(network_.end(), ranks_.resources().begin(), ranks_.resources().end());
  }

  SimulatedSteps ddp() {
    const auto buckets = bucketsOf(model_, question_.options);
    for (int step = 0; step < question_.steps; ++step) {
      begin();
      for (int micro = 1; micro < question_.options.accumulate; ++micro) {
        forward(0, model_.layers.size(), {});
        backward(0, model_.layers.size(), {}, [](std::size_t) {});
      }
      forward(0, model_.layers.size(), {});
      std::size_t next = 0;
      const auto start = [&] {
        const GradientBucket& bucket = buckets[next++];
        communicate(Collective::allreduce, "bucket " + std::to_string(bucket.index),
                    static_cast<double>(bucket.count * sizeOf(bucket.type)), last_);
      };
      // Weights get their gradients from the last to the first, so all after `first` have theirs.
      backward(0, model_.layers.size(), {}, [&](std::size_t layer) {
        const auto complete = [&](const GradientBucket& bucket) {
          return std::ranges::all_of(bucket.parameters,
                                     [&](std::size_t w) { return layerOf_[w] >= layer; });
        };
        while (question_.options.gradients.overlap && next < buckets.size() &&
               complete(buckets[next]))
          start();
      });
      while (next < buckets.size()) start();
      update();
      steps_.ends.push_back(last_);
    }
    return std::move(steps_);
  }

  SimulatedSteps local() {
    steps_.steps_in_each = question_.options.averaging.period;
    for (int step = 0; step < question_.steps; ++step) {
      for (int own = 0; own < steps_.steps_in_each; ++own) {
        begin();
        for (int micro = 0; micro < question_.options.accumulate; ++micro) {
          forward(0, model_.layers.size(), {});
          backward(0, model_.layers.size(), {}, [](std::size_t) {});
        }
        update();
      }
      communicate(Collective::allreduce, "average", 4.0 * static_cast<double>(model_.weights()),
                  last_);
      std::ranges::fill(last_, sent_.back());
      sent_.clear();
      steps_.ends.push_back(last_);
    }
    return std::move(steps_);
  }

  SimulatedSteps sharded(ShardLevel level) {
    if (question_.options.accumulate > 1)
      throw Error(ErrorCode::invalid_argument, "micro-batches of strategy " +
                                                   question_.options.strategy +
                                                   " are not simulated: leave --accumulate out");
    const auto layout = training::shardLayout(sizes(), static_cast<std::size_t>(question_.ranks),
                                              training::unitBytes(question_.options, level));
    const auto moves = training::shardMoves(layout, level, false);
    std::map<std::size_t, std::uint32_t> gathered, slots;
    for (int step = 0; step < question_.steps; ++step) {
      begin();
      for (const training::ShardMove& move : moves) {
        const training::ShardUnit& unit = layout.units[move.unit];
        const double bytes = 4.0 * static_cast<double>(unit.count);
        const std::string name = "unit " + std::to_string(move.unit);
        const std::size_t slot = training::ShardSlots::gradients(move.unit, level);
        Tasks after;
        if (const auto found = gathered.find(move.unit); found != gathered.end())
          after.push_back(found->second);
        switch (move.task) {
          case ShardTask::gather:
            communicate(Collective::allgather, name, bytes, last_);
            gathered[move.unit] = sent_.back();
            break;
          case ShardTask::forward:
            forward(layerAt(unit.layers.begin), layerAt(unit.layers.end), after);
            break;
          case ShardTask::backward:
            if (const auto found = slots.find(slot);
                level != ShardLevel::optimizer && found != slots.end())
              after.push_back(found->second);
            backward(layerAt(unit.layers.begin), layerAt(unit.layers.end), after,
                     [](std::size_t) {});
            break;
          case ShardTask::reduce:
            communicate(Collective::reducescatter, name, bytes, last_);
            slots[slot] = sent_.back();
            break;
          case ShardTask::replicate: break; // only with groups
          case ShardTask::update: update(); break;
        }
      }
      steps_.ends.push_back(last_);
    }
    return std::move(steps_);
  }

 private:
  static std::vector<GradientBucket> bucketsOf(const StepModel& model,
                                               const TrainOptions& options) {
    std::vector<Parameter> parameters;
    for (const StepLayer& layer : model.layers)
      for (const std::size_t count : layer.weights)
        parameters.push_back({.name = layer.name, .shape = {count}});
    std::vector<std::size_t> order(parameters.size());
    std::iota(order.rbegin(), order.rend(), std::size_t{0});
    return gradients::assignBuckets(parameters, order, options.gradients.bucket_bytes);
  }

  static std::vector<std::size_t> layersOfWeights(const StepModel& model) {
    std::vector<std::size_t> layers;
    for (std::size_t i = 0; i < model.layers.size(); ++i)
      layers.insert(layers.end(), model.layers[i].weights.size(), i);
    return layers;
  }

  /// The weights of each layer that a strategy may divide.
  training::LayerSizes sizes() const {
    training::LayerSizes sizes(model_.layers.back().place + 1);
    for (const StepLayer& layer : model_.layers)
      sizes[layer.place].insert(sizes[layer.place].end(), layer.weights.begin(),
                                layer.weights.end());
    return sizes;
  }
  std::size_t layerAt(std::size_t place) const {
    const auto found = std::ranges::find_if(
        model_.layers, [&](const StepLayer& layer) { return layer.place >= place; });
    return static_cast<std::size_t>(found - model_.layers.begin());
  }

  void begin() { last_ = ranks_.begin(last_); }

  void forward(std::size_t first, std::size_t end, const Tasks& after) {
    for (std::size_t i = first; i < end; ++i)
      pass("forward ", model_.layers[i], model_.layers[i].forward, after);
  }
  void backward(std::size_t first, std::size_t end, const Tasks& after, const auto& done) {
    for (std::size_t i = end; i-- > first;) {
      pass("backward ", model_.layers[i], model_.layers[i].backward, after);
      done(i);
    }
  }
  void pass(const char* direction, const StepLayer& layer, double seconds, const Tasks& after) {
    for (std::size_t i = 0; i < last_.size(); ++i) {
      Tasks before = after;
      before.push_back(last_[i]);
      last_[i] = ranks_.compute(i, direction + layer.name, seconds, before);
    }
  }
  void communicate(Collective collective, const std::string& name, double bytes,
                   const Tasks& after) {
    sent_.push_back(steps_.graph.add({.name = std::string(traits(collective).title) + " " + name,
                                      .seconds = question_.call(collective, bytes),
                                      .resources = network_,
                                      .after = after,
                                      .communication = true,
                                      .collective = collective,
                                      .bytes = bytes}));
  }
  /// The optimizer, after everything that was sent in this step.
  void update() {
    for (std::size_t i = 0; i < last_.size(); ++i) {
      Tasks before = sent_;
      before.push_back(last_[i]);
      last_[i] = ranks_.compute(i, "optimizer", model_.optimizer, before);
    }
    sent_.clear();
  }

  const StepQuestion& question_;
  const StepModel& model_;
  SimulatedSteps steps_;
  StepRanks ranks_;
  const std::vector<std::size_t> layerOf_ = layersOfWeights(model_);
  std::vector<std::uint32_t> network_; ///< resources of a collective
  Tasks last_;                         ///< the last task of each rank
  Tasks sent_;                         ///< collectives of this step
};

} // namespace

std::vector<int> differentRanks(const TrainOptions& options, int ranks, bool shared) {
  const TrainOptions::Stragglers& stragglers = options.stragglers;
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  if (options.strategy == "pipeline" || stragglers.jitter.probability > 0 || shared) return all;
  const auto slow = [&](int rank) {
    return std::ranges::any_of(stragglers.slow,
                               [&](const TrainSlowRank& one) { return one.rank == rank; });
  };
  std::vector<int> different;
  for (const int rank : all)
    if (slow(rank) || std::ranges::none_of(different, [&](int other) { return !slow(other); }))
      different.push_back(rank);
  std::stable_partition(different.begin(), different.end(), std::not_fn(slow));
  return different;
}

SimulatedSteps simulatedSteps(const StepQuestion& question) {
  const std::string& strategy = question.options.strategy;
  if (strategy == "pipeline") return pipelineSteps(question);
  DataParallel steps(question);
  if (strategy == "ddp") return steps.ddp();
  if (strategy == "local") return steps.local();
  if (strategy == "zero1") return steps.sharded(ShardLevel::optimizer);
  if (strategy == "zero2") return steps.sharded(ShardLevel::gradients);
  if (strategy == "fsdp") return steps.sharded(ShardLevel::parameters);
  throw Error(ErrorCode::invalid_argument,
              "strategy " + strategy +
                  " is not simulated; valid: ddp, local, zero1, zero2, fsdp, pipeline, ps");
}

} // namespace rondo::tools
