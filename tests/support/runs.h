// Training on several ranks of one process, and the results or errors of all ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rondo/train.h"

namespace rondo::test {

std::vector<Communicator> makeRanks(int ranks, const std::string& transport = "inproc",
                                    bool deterministic = true);

/// A small synthetic data set of 8 x 8 pixels, which mlp learns within seconds.
TrainOptions smallRun();

/// Trains on all ranks. Returns the report, which must be the same on all ranks.
TrainReport trainAll(std::vector<Communicator> ranks, const TrainOptions& options,
                     const std::function<void(const TrainProgress&)>& progress_of_0 = {});

/// Requires the same parameters, losses and accuracies.
void requireSame(const TrainReport& a, const TrainReport& b);

/// The error that a rank's call throws.
struct Thrown {
  ErrorCode code = ErrorCode::system;
  std::string text = "nothing was thrown";
  int culprit = -2;

  bool operator==(const Thrown&) const = default;
};

/// Requires the same error on all ranks, and returns it.
Thrown thrownByAll(std::vector<Communicator>& ranks,
                   const std::function<void(Communicator&)>& body);

/// A change of the options, and what the error says of it.
struct Change {
  std::string name;
  std::function<void(TrainOptions&)> make;
};

/// Requires that each change is Error(invalid_argument) on all ranks, with its name in the text.
void requireRefused(std::vector<Communicator>& ranks, const TrainOptions& options,
                    const std::vector<Change>& changes);

bool contains(const std::string& text, const std::string& piece);

} // namespace rondo::test
