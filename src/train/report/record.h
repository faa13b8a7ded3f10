// What a training run leaves behind for its reports: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rondo/train.h"

namespace rondo::training {

struct StepRecord {
  std::int64_t number = 0; ///< over all epochs, the first is 1
  int epoch = 0, step = 0; ///< step within the epoch; the first of each is 1
  double loss = 0;         ///< mean over the step's samples
  double learning_rate = 0;
  double samples_per_second = 0; ///< all ranks
  TrainTimes times;              ///< of the rank that writes the report
};

struct EpochRecord {
  int epoch = 0;
  std::int64_t last_step = 0; ///< its StepRecord's number
  double loss = 0;            ///< mean over the epoch's samples
  double test_accuracy = 0;   ///< in [0, 1]
  double seconds = 0;         ///< with the evaluation
};

enum class Lane { compute, communication };

/// Something that took time on one rank: "forward", "backward", "bucket 3".
struct TimelineEvent {
  std::string name;
  int rank = 0;
  Lane lane = Lane::compute;
  std::int64_t step = 0; ///< its StepRecord's number
  double begin = 0;      ///< seconds, from a moment that all events have in common
  double seconds = 0;
  std::uint64_t bytes = 0; ///< that were sent; 0: none
};

struct TrainRecord {
  std::string title;                                         ///< "cnn on fashion-mnist, 2 ranks"
  std::vector<std::pair<std::string, std::string>> settings; ///< shown in this order
  std::vector<StepRecord> steps;
  std::vector<EpochRecord> epochs;
  std::optional<double> end_accuracy;  ///< in [0, 1], of a run that ends amid an epoch
  std::vector<TimelineEvent> timeline; ///< of the steps that were observed so closely
  double seconds = 0;                  ///< of the whole run
};

} // namespace rondo::training
