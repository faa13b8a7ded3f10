#include "train/parallel/sharding/sharded.h"

#include <algorithm>
#include <cmath>

#include "train/loop/settings.h"
#include "train/parallel/finite.h"
#include "train/parallel/recipe.h"
#include "train/parallel/samples.h"
#include "train/parallel/sharding/plan.h"
#include "train/parallel/sharding/traffic.h"
#include "train/parallel/step_sums.h"

namespace rondo::training {

namespace {

class Sharded : public Strategy {
 public:
  Sharded(const Setup& setup, ShardLevel level);

  StepResult run(const Position& done, std::int64_t meeting, Timeline* timeline) override;
  std::uint64_t verify(const std::string& when) override { return replica_.verify(when); }
  double evaluate() override { return replica_.evaluate(); }
  Snapshot snapshot() override { return {.tensors = replica_.gather()}; }
  void adopt(const Position& at) override {
    replica_.scatter(static_cast<std::uint64_t>(at.total));
  }
  std::vector<StatePart> held() override { return replica_.held(); }
  double bytesPerStep() const override;
  void tell(TrainReport& report) override;

 private:
  void computeGradients(const Position& done, StepClock& clock);
  void update(double learning_rate);

  Communicator& comm_;
  const TrainOptions& options_;
  ShardedReplica replica_;
  Samples samples_;
  const Schedule schedule_;
  const GradientReady ready_;
  StepSums sums_;
  std::string layer_; ///< the first layer with a value that is not finite; "" if there is none
};

std::size_t parts(const Setup& setup) {
  return static_cast<std::size_t>(setup.comm.size()) *
         static_cast<std::size_t>(setup.options.accumulate);
}

Sharded::Sharded(const Setup& setup, ShardLevel level)
    : comm_(setup.comm),
      options_(setup.options),
      replica_(setup, level),
      samples_(options_, setup.data, parts(setup)),
      schedule_(schedule(options_, totalSteps(options_, setup.data))),
      ready_([this](std::size_t weight) { replica_.model().gradientReady(weight); }),
      sums_(comm_, options_, replica_.statistics()) {}

StepResult Sharded::run(const Position& done, std::int64_t, Timeline* timeline) {
  StepResult result;
  const Stopwatch whole;
  replica_.forget();
  sums_.begin();
  layer_.clear();
  StepClock clock(result.times, timeline);
  replica_.model().observe(timeline);
  computeGradients(done, clock);
  sums_.wait();
  requireFinite(comm_, sums_.loss(), done.total + 1, layer_);
  result.learning_rate = rateAt(schedule_, static_cast<std::uint64_t>(done.total));
  update(result.learning_rate);
  clock.lap(&TrainTimes::optimizer, "optimizer");
  result.loss = sums_.loss() / options_.batch;
  result.at = after(done, result.loss);
  result.stop = sums_.stop();
  result.times.step = whole.read();
  return result;
}

void Sharded::computeGradients(const Position& done, StepClock& clock) {
  const auto micro_batches = static_cast<std::size_t>(options_.accumulate);
  const std::size_t first = static_cast<std::size_t>(comm_.rank()) * micro_batches;
  const Pass pass = passOf(options_, done.total, comm_);
  Network& network = replica_.network();
  for (std::size_t micro = 0; micro < micro_batches; ++micro) {
    const Batch batch = samples_.load(done.epoch, done.step, first + micro);
    clock.lap(&TrainTimes::data, "data");
    replica_.model().beginForward();
    const double loss = network.forward(batch, pass);
    sums_.addLoss(loss);
    if (!std::isfinite(loss) && layer_.empty()) layer_ = network.firstNotFinite();
    sums_.addStatistics(micro == 0);
    clock.lap(&TrainTimes::forward, "forward");
    if (micro + 1 == micro_batches) sums_.send();
    replica_.model().beginBackward();
    network.backward(ready_);
    clock.lap(&TrainTimes::backward, "backward");
    replica_.model().endBackward();
    clock.lap(&TrainTimes::communication, nullptr);
  }
}

void Sharded::update(double learning_rate) {
  if (!replica_.statistics().empty())
    replica_.network().moveState(static_cast<std::size_t>(options_.batch));
  replica_.model().update(learning_rate, 1.0F / static_cast<float>(options_.batch),
                          options_.optimizer.clip);
}

double Sharded::bytesPerStep() const {
  const ShardedModel& model = replica_.model();
  const int groups = replica_.groups();
  return shardTraffic(model.layout(), {.level = model.level(),
                                       .groups = groups,
                                       .shards = comm_.size() / groups,
                                       .micro_batches = options_.accumulate,
                                       .narrow = model.narrow()});
}

void Sharded::tell(TrainReport& report) {
  std::uint64_t bytes = replica_.model().held().total();
  comm_.allReduce(&bytes, &bytes, 1, DataType::uint64, ReduceOp::max);
  report.held_bytes = bytes;
}

} // namespace

void checkSharded(const TrainOptions& options, int ranks) {
  strategyMesh(options, ranks, Axis::shard);
  if (options.gradients.hook != "none" && options.gradients.hook != "bf16")
    throw Error(ErrorCode::invalid_argument, "train: hook \"" + options.gradients.hook +
                                                 "\": strategy " + options.strategy +
                                                 " takes none and bf16");
  requireParts(options, std::int64_t{ranks} * options.accumulate, "ranks x accumulate");
}

std::string showSharded(const TrainOptions& options, const Dataset& samples, int ranks,
                        ShardLevel level) {
  const Mesh mesh = strategyMesh(options, ranks, Axis::shard);
  const Network network(options.model, samples.shape, samples.classes,
                        computeOf(options.device, options.precision, 0));
  const ShardLayout layout =
      shardLayout(sizesOf(network.nodes()), static_cast<std::size_t>(mesh.size(Axis::shard)),
                  unitBytes(options, level));
  return shardPlanText(layout, level, mesh, optimizerKind(options.optimizer.name).arrays,
                       options.gradients.hook != "none");
}

std::unique_ptr<Strategy> makeSharded(const Setup& setup, ShardLevel level) {
  return std::make_unique<Sharded>(setup, level);
}

} // namespace rondo::training
