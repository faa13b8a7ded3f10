// The ranks of a simulated training step: their passes, and how slow stragglers are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/tasks.h"
#include "rondo/train.h"
#include "train/loop/straggler.h"

namespace rondo::tools {

class StepRanks {
 public:
  /// Adds a resource for each of these ranks. The graph must outlive this object. `processors`: the
  /// processor of each rank, if ranks share processors; otherwise empty.
  StepRanks(const TrainOptions& options, const std::vector<int>& numbers,
            const std::vector<int>& processors, model::TaskGraph& graph)
      : graph_(graph), numbers_(numbers), processors_(processors) {
    for (const int number : numbers) {
      resources_.push_back(graph.addResource(
          {.owner = "rank " + std::to_string(number), .name = "passes", .rank = number}));
      stragglers_.emplace_back(options, number);
    }
    times_.resize(numbers.size());
  }

  const std::vector<int>& numbers() const { return numbers_; }
  const std::vector<std::uint32_t>& resources() const { return resources_; }

  /// Sets how many seconds each rank computes in a step. The delay of a straggler is proportional
  /// to them.
  void computes(double data, double forward, double backward, double optimizer) {
    for (std::size_t i = 0; i < resources_.size(); ++i)
      computes(i, data, forward, backward, optimizer);
  }
  void computes(std::size_t rank, double data, double forward, double backward, double optimizer) {
    times_[rank] = {.data = data * 1e3,
                    .forward = forward * 1e3,
                    .backward = backward * 1e3,
                    .optimizer = optimizer * 1e3};
  }

  /// Begins a step of every rank, after its task in `last` (empty: it is the first step):
  /// stragglers sleep, as in the trainer, then samples are loaded. Returns the last task of each
  /// rank.
  std::vector<std::uint32_t> begin(const std::vector<std::uint32_t>& last) {
    std::vector<std::uint32_t> now;
    for (std::size_t i = 0; i < resources_.size(); ++i) {
      std::vector<std::uint32_t> after;
      if (!last.empty()) after.push_back(last[i]);
      if (const double sleeps = stragglers_[i].next(times_[i]); sleeps > 0)
        after = {graph_.add({.name = "straggler",
                             .seconds = sleeps * 1e-3,
                             .resources = {resources_[i]},
                             .after = after})};
      now.push_back(compute(i, "data", times_[i].data * 1e-3, after));
    }
    return now;
  }

  std::uint32_t compute(std::size_t rank, const std::string& name, double seconds,
                        const std::vector<std::uint32_t>& after) {
    return graph_.add({.name = name,
                       .seconds = seconds,
                       .resources = {resources_[rank]},
                       .after = after,
                       .processor = processors_.empty() ? -1 : processors_[rank]});
  }

 private:
  model::TaskGraph& graph_;
  const std::vector<int> numbers_, processors_;
  std::vector<std::uint32_t> resources_;
  std::vector<training::Straggler> stragglers_;
  std::vector<TrainTimes> times_;
};

} // namespace rondo::tools
