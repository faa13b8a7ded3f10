// The record of a training run, from which reports are made: plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rondo/train.h"

namespace rondo::training {

struct StepRecord {
  std::int64_t number = 0; ///< over all epochs, counted from 1
  int epoch = 0, step = 0; ///< step within the epoch, counted from 1
  double loss = 0;         ///< mean over the step's samples
  double learning_rate = 0;
  double samples_per_second = 0; ///< of all ranks
  TrainTimes times;              ///< of the rank that writes the report
};

struct EpochRecord {
  int epoch = 0;
  std::int64_t last_step = 0; ///< StepRecord::number of its last step
  double loss = 0;            ///< mean over the epoch's samples
  double test_accuracy = 0;   ///< in [0, 1]
  double seconds = 0;         ///< including the evaluation
};

enum class Lane { compute, communication };
inline constexpr std::array<std::string_view, 2> kLaneNames = {"compute", "communication"};
constexpr std::string_view nameOf(Lane lane) { return kLaneNames[static_cast<std::size_t>(lane)]; }

/// A span of time on one rank: "forward", "backward", "bucket 3".
struct TimelineEvent {
  std::string name;
  int rank = 0;
  Lane lane = Lane::compute;
  std::int64_t step = 0; ///< StepRecord::number
  double begin = 0;      ///< seconds after the common zero of all events
  double seconds = 0;
  std::uint64_t bytes = 0; ///< bytes that were sent; 0: none
};

struct TrainRecord {
  std::string title;                                         ///< for example "cnn, 2 ranks"
  std::vector<std::pair<std::string, std::string>> settings; ///< shown in this order
  std::vector<StepRecord> steps;
  std::vector<EpochRecord> epochs;
  std::optional<double> end_accuracy;  ///< in [0, 1], for a run that ends within an epoch
  std::vector<TimelineEvent> timeline; ///< events of the steps that were observed in detail
  double seconds = 0;                  ///< of the whole run
};

} // namespace rondo::training
