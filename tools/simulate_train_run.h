// Simulates training steps on a described network, and sums up where their time goes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/simulate.h"
#include "plan/registry.h"
#include "rondo/train_options.h"
#include "tools/plan_network.h"
#include "tools/simulate_train_model.h"
#include "tools/simulate_train_servers.h"
#include "tools/simulate_train_steps.h"

namespace rondo::tools {

/// How long calls and messages of some ranks take, by simulating their plans. Each size is
/// simulated once.
class CallTimes {
 public:
  /// `algorithms`: "all", or a comma list; the fastest one that supports the call counts.
  /// `per_node`: ranks of a node; 0: all ranks are on one.
  CallTimes(const PlannedNetwork& network, std::string algorithms, int ranks, int per_node);

  /// The time; by the algorithm's formula if the call is too large to be simulated. Throws
  /// Error(invalid_argument) if no algorithm supports the call, or it never ends.
  double call(Collective collective, double bytes);
  /// A line for each collective and algorithm that a formula timed, with the reason.
  std::vector<std::string> formulas() const;
  /// Of one message between two ranks. Throws Error(invalid_argument) if their link is dead.
  double message(int from, int to, double bytes);
  /// Whether the processors that compute also move the bytes: there is no network, and ranks have
  /// no second processor.
  bool oneProcessor() const;
  /// The processor of each rank, if ranks share processors; otherwise empty.
  std::vector<int> sharedProcessors() const;
  const plan::Layout& layout() const { return layout_; }

 private:
  model::Outcome outcomeOf(const plan::Choice& choice, Collective collective, double bytes);

  struct Plans {
    std::unique_ptr<const model::Simulation> simulation = {}; ///< null if they are too large
    std::string too_large = {};                               ///< why a call was not simulated
  };

  const PlannedNetwork& network_;
  const std::string algorithms_;
  const int ranks_, per_node_;
  plan::Layout layout_;
  std::map<std::pair<Collective, std::string>, Plans> plans_; ///< by collective, algorithm
  std::map<std::pair<Collective, double>, double> calls_;
  std::map<std::tuple<bool, double, double>, double> messages_; ///< by node, factor and bytes
};

/// A bar of a trace.
struct StepSpan {
  std::string owner, resource, name;
  double begin = 0, end = 0;
  double bytes = -1; ///< of a communication; otherwise negative
};

/// All times are seconds of one step, after the first one.
struct StepRow {
  int ranks = 1;
  double step = 0;
  double passes = 0;        ///< of the rank that computes longest, with optimizer and data
  double communication = 0; ///< while the network was busy; of a pipeline: its busiest link
  double samples_per_second = 0;
  /// Samples per second, divided by those of as many ranks that only compute.
  double efficiency = 0;
  std::int64_t most_apart = 0;            ///< ps: steps between the first and the last worker
  std::vector<StepSpan> spans = {};       ///< all steps
  std::vector<StepSpan> last_calls = {};  ///< collectives of the last step, from its begin on
  SimulatedSteps tasks = {};              ///< empty for strategy ps, which makes no tasks
  std::vector<std::string> formulas = {}; ///< of CallTimes

  /// Seconds in which a rank does not compute; 0 if the difference is only rounding.
  double waiting() const { return step - passes > 1e-9 * step ? step - passes : 0; }
};

struct StepRun {
  const StepModel& model;
  TrainOptions options; ///< `batch` is set here
  int ranks = 1;
  int steps = 0; ///< 0: as many as the strategy needs for a steady state
};

/// Throws what the trainer throws for these options, and what simulatedSteps() and CallTimes throw.
StepRow simulatedRow(const StepRun& run, CallTimes& times);

} // namespace rondo::tools
