// Measures the overhead of the trainer on one rank: the same steps of the same model by a bare
// loop, by a loop with a GradientReducer, and by the trainer's strategy.
//
//   bench_overhead MODEL DATA STEPS [WAY]
//
// Runs STEPS steps of 64 samples in each way, a few of each in turn, and prints a line of JSON with
// the median time of a step for each way, in milliseconds. With WAY (bare, reducer, trainer) it
// runs only that one and prints no times: for counting instructions.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rondo/rondo.h"
#include "train/loop/compute_threads.h"
#include "train/loop/replica.h"
#include "train/loop/settings.h"
#include "train/loop/stopwatch.h"
#include "train/optim/optimizer.h"
#include "train/parallel/samples.h"
#include "train/parallel/strategy.h"

namespace {

using namespace rondo;
using namespace rondo::training;

constexpr int kTurn = 5; ///< steps of one way in a row; the caches are warm for most of them

/// A training loop for one processor: load, forward, backward, optimizer.
class Loop {
 public:
  Loop(const TrainOptions& options, const Data& data)
      : batch_(static_cast<float>(options.batch)),
        rate_(options.optimizer.learning_rate),
        samples_(options, data, 1),
        replica_(options.model, data.train.shape, data.train.classes, options.seed) {}

  /// Puts the gradients into memory of the loop.
  void useOwnMemory() {
    for (Weight* weight : replica_.weights()) {
      gradients_.emplace_back(weight->size());
      weight->gradient = gradients_.back().data();
    }
    makeReady_ = [](std::size_t) {};
    prepare();
  }
  void useReducer(Communicator& comm) {
    reducer_.emplace(comm, parametersOf(replica_.weights()));
    makeReady_ = [this](std::size_t weight) { reducer_->ready(weight); };
    prepare();
  }

  void step(const Position& at) {
    const Batch batch = samples_.load(at.epoch, at.step, 0);
    if (reducer_) {
      reducer_->begin();
      // The second begin() moves the gradients.
      const auto weights = replica_.weights();
      for (std::size_t i = 0; i < weights.size(); ++i)
        weights[i]->gradient = static_cast<float*>(reducer_->gradient(i));
    }
    replica_.network().forward(batch, {});
    replica_.network().backward(makeReady_);
    if (reducer_) reducer_->wait();
    optimizer_->step(rate_, 1.0F / batch_);
    replica_.network().weightsChanged();
  }

 private:
  void prepare() { optimizer_ = makeOptimizer("sgd", replica_.weights(), {}); }

  const float batch_;
  const double rate_;
  Samples samples_;
  Replica replica_;
  std::vector<AlignedVector<float>> gradients_;
  std::optional<GradientReducer> reducer_;
  GradientReady makeReady_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// One of the ways, and the times of its steps.
struct Way {
  std::string name;
  std::function<void(const Position&)> step;
  std::vector<double> milliseconds = {};
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The next position; all ways see the same epochs.
Position next(Position at, int epoch_steps) {
  at = after(at, 0);
  return at.step < epoch_steps ? at : Position{at.epoch + 1, 0, at.total, 0};
}

void measure(std::vector<Way>& ways, int steps, int epoch_steps) {
  Position at;
  for (int done = 0; done < steps; done += kTurn) {
    Position end = at;
    for (Way& way : ways) {
      end = at;
      for (int i = 0; i < kTurn; ++i, end = next(end, epoch_steps)) {
        const Stopwatch watch;
        way.step(end);
        if (done > 0) way.milliseconds.push_back(watch.read()); // the first steps build programs
      }
    }
    at = end;
  }
}

int run(const std::string& model, const std::string& source, int steps, const std::string& only) {
  const ComputeThreads threads;
  TrainOptions options;
  options.model = model;
  options.data = source;
  options.batch = 64;
  options.steps = steps + 1;
  const Data data = load(options);
  Communicator comm = std::move(Communicator::createAll(1).front());
  Loop bare(options, data), reducing(options, data);
  const auto strategy = strategyFor(options, 1).make({comm, options, data});

  bare.useOwnMemory();
  reducing.useReducer(comm);
  std::vector<Way> ways;
  ways.push_back({"bare", [&](const Position& at) { bare.step(at); }});
  ways.push_back({"reducer", [&](const Position& at) { reducing.step(at); }});
  ways.push_back(
      {"trainer", [&](const Position& at) { strategy->run(at, at.total + 1, nullptr); }});
  if (!only.empty()) std::erase_if(ways, [&](const Way& way) { return way.name != only; });
  measure(ways, steps, epochSteps(options, data));
  if (!only.empty()) return ways.empty() ? EXIT_FAILURE : EXIT_SUCCESS;
  std::printf("{");
  for (const Way& way : ways)
    std::printf("%s\"%s\": %.5f", &way == ways.data() ? "" : ", ", way.name.c_str(),
                median(way.milliseconds));
  std::printf("}\n");
  return EXIT_SUCCESS;
}

} // namespace

int main(int count, char** words) {
  if (count < 4) {
    std::fprintf(stderr, "usage: bench_overhead MODEL DATA STEPS [bare|reducer|trainer]\n");
    return EXIT_FAILURE;
  }
  try {
    return run(words[1], words[2], std::atoi(words[3]), count > 4 ? words[4] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_overhead: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
