// Compares sharded models with a model that one rank holds alone: the weights must be equal.
#include "train/parallel/sharding/model.h"

#include <algorithm>
#include <cmath>

#include "support/ranks.h"
#include "support/test.h"
#include "train/aligned.h"
#include "train/loop/compute_threads.h"
#include "train/parallel/sharding/traffic.h"
#include "train/random.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

using training::LayerValues;
using training::Network;
using training::OptimizerSettings;
using training::ShardedModel;
using training::ShardLevel;
using training::ShardSettings;
using training::ShardUnit;
using training::Weight;
using Floats = training::AlignedVector<float>;

namespace {

constexpr training::SampleShape kShape{1, 6, 6};
constexpr std::size_t kClasses = 5, kSamples = 3;
constexpr int kSteps = 4;

const LayerValues kDense = {training::Flatten{},       training::Linear{24}, training::Relu{},
                            training::Linear{3},       training::Relu{},     training::Linear{17},
                            training::Linear{kClasses}};
/// Filters that oneDNN packs, a residual, batch norms.
const LayerValues kFilters = {
    training::Convolution{16, {.kernel = 3, .padding = 1}},
    training::BatchNorm{},
    training::Relu{},
    training::Residual{
        {training::Convolution{16, {.kernel = 3, .padding = 1}, false}, training::BatchNorm{}}, {}},
    training::Relu{},
    training::MaxPool{{.kernel = 2, .stride = 2}},
    training::Flatten{},
    training::Linear{kClasses}};

/// Samples that depend only on their numbers.
struct Samples {
  explicit Samples(std::size_t number) {
    training::Random random(100 + number);
    for (float& value : inputs) value = static_cast<float>(random.symmetric());
    for (auto& label : labels) label = static_cast<std::uint8_t>(random.below(kClasses));
  }
  training::Batch batch() const { return {kSamples, inputs.data(), labels.data(), numbers.data()}; }

  Floats inputs = Floats(kSamples * kShape.size());
  std::vector<std::uint8_t> labels = std::vector<std::uint8_t>(kSamples);
  std::vector<std::uint32_t> numbers = std::vector<std::uint32_t>(kSamples);
};

struct Plan {
  LayerValues layers = kDense;
  ShardLevel level = ShardLevel::parameters;
  int ranks = 1, groups = 1;
  int micro_batches = 1;
  std::vector<std::size_t> unit_bytes = {0};
  std::string optimizer = "sgd";
  bool overlap = true;
  double clip = 0;
};

OptimizerSettings settings() { return {.momentum = 0.9, .weight_decay = 0.01}; }

/// Allocates the running statistics of a network.
Floats placeState(Network& network) {
  std::size_t count = 0;
  for (Weight* weight : network.state()) count += weight->size() + training::kShardGrain;
  Floats memory(count);
  float* at = memory.data();
  for (Weight* weight : network.state()) {
    weight->value = at;
    at += (weight->size() + training::kShardGrain - 1) / training::kShardGrain *
          training::kShardGrain;
  }
  return memory;
}

/// Trains with the samples of all ranks on one rank. Micro-batches are added from the first to the
/// last.
std::vector<float> alone(const Plan& plan) {
  const training::ComputeThreads threads;
  Network network(plan.layers, kShape);
  const Floats state = placeState(network);
  std::vector<Floats> memory;
  const std::vector<Weight*> weights = network.weights();
  for (Weight* weight : weights) {
    weight->value = memory.emplace_back(weight->size()).data();
    weight->gradient = memory.emplace_back(weight->size()).data();
  }
  network.initialise(1);
  const auto optimizer = makeOptimizer(plan.optimizer, weights, settings());
  const int parts = plan.ranks * plan.groups * plan.micro_batches;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::vector<float>> sums(weights.size());
    for (int part = 0; part < parts; ++part) {
      const Samples samples(static_cast<std::size_t>(step * parts + part));
      network.forward(samples.batch(), {});
      network.backward([](std::size_t) {});
      for (std::size_t w = 0; w < weights.size(); ++w) {
        const float* const gradient = weights[w]->gradient;
        if (part == 0) sums[w].assign(gradient, gradient + weights[w]->size());
        else
          std::transform(sums[w].begin(), sums[w].end(), gradient, sums[w].begin(), std::plus<>());
      }
    }
    for (std::size_t w = 0; w < weights.size(); ++w)
      std::copy(sums[w].begin(), sums[w].end(), weights[w]->gradient);
    float scale = 1.0F / static_cast<float>(parts * static_cast<int>(kSamples));
    if (plan.clip > 0) scale = training::clip(weights, scale, plan.clip).scale;
    optimizer->step(0.1, scale);
    network.weightsChanged();
  }
  std::vector<float> all;
  for (const Weight* weight : weights)
    all.insert(all.end(), weight->value, weight->value + weight->size());
  return all;
}

std::vector<float> valuesOf(ShardedModel& model, Network& network) {
  std::vector<float> all;
  const auto weights = network.weights();
  model.visitUnits([&](const ShardUnit& unit, const float* values) {
    for (std::size_t w = unit.weights.begin; w < unit.weights.end; ++w) {
      const float* const at = values + unit.places[w - unit.weights.begin];
      all.insert(all.end(), at, at + weights[w]->size());
    }
  });
  return all;
}

void trainSteps(const Plan& plan, int position, ShardedModel& model, Network& network) {
  const int parts = plan.ranks * plan.groups * plan.micro_batches;
  for (int step = 0; step < kSteps; ++step) {
    for (int micro = 0; micro < plan.micro_batches; ++micro) {
      const int part = position * plan.micro_batches + micro;
      const Samples samples(static_cast<std::size_t>(step * parts + part));
      model.beginForward();
      network.forward(samples.batch(), {});
      model.beginBackward();
      network.backward([&](std::size_t weight) { model.gradientReady(weight); });
      model.endBackward();
    }
    model.update(0.1, 1.0F / static_cast<float>(parts * static_cast<int>(kSamples)), plan.clip);
  }
}

/// The weights after all steps, which must be equal on all ranks.
std::vector<float> together(const Plan& plan, const std::string& transport = "inproc") {
  Options options = plainOptions(transport);
  options.deterministic = true;
  auto ranks = Communicator::createAll(plan.ranks * plan.groups, options);
  std::vector<std::vector<float>> values(ranks.size());
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            const training::ComputeThreads threads;
            const int rank = comm.rank();
            Communicator shards = *comm.split(rank / plan.ranks, rank);
            std::optional<Communicator> replicas;
            if (plan.groups > 1) replicas = comm.split(rank % plan.ranks, rank);
            Network network(plan.layers, kShape);
            const Floats state = placeState(network);
            ShardedModel model(shards, replicas ? &*replicas : nullptr, network, 1,
                               {.level = plan.level,
                                .unit_bytes = plan.unit_bytes,
                                .optimizer = plan.optimizer,
                                .optimizer_settings = settings(),
                                .micro_batches = plan.micro_batches,
                                .overlap = plan.overlap});
            trainSteps(plan, rank, model, network);
            values[static_cast<std::size_t>(rank)] = valuesOf(model, network);
            return {};
          })) == "");
  for (const auto& one : values) REQUIRE((one == values[0]));
  return values[0];
}

/// The largest difference, as a multiple of the allowed one: 1e-5 of the value plus 1e-6.
double excess(const std::vector<float>& expected, const std::vector<float>& values) {
  REQUIRE(expected.size() == values.size());
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double bound = 1e-6 + 1e-5 * std::abs(double{expected[i]});
    worst = std::max(worst, std::abs(double{expected[i]} - double{values[i]}) / bound);
  }
  return worst;
}

constexpr std::array kLevels = {ShardLevel::optimizer, ShardLevel::gradients,
                                ShardLevel::parameters};

} // namespace

TEST_CASE("for every shard level, unit size and rank count, weights equal those of one rank") {
  for (const LayerValues& layers : {kDense, kFilters})
    for (int ranks : {1, 2, 3, 4, 7})
      for (const char* optimizer : {"sgd", "adamw"}) {
        Plan plan{.layers = layers, .ranks = ranks, .optimizer = optimizer};
        if (!kWholeGrid && ranks != (plan.optimizer == "sgd" ? 3 : 2)) continue;
        const std::vector<float> expected = alone(plan);
        for (ShardLevel level : kLevels)
          for (std::size_t bytes : {std::size_t{0}, std::size_t{3000}, std::size_t{1} << 20}) {
            if (!kWholeGrid && bytes == 3000) continue;
            plan.level = level;
            plan.unit_bytes = {bytes};
            INFO(layers.size() << " layers, " << ranks << " ranks, " << optimizer << ", level "
                               << static_cast<int>(level) << ", units of " << bytes << " bytes");
            REQUIRE((together(plan) == expected));
          }
      }
}

TEST_CASE("transports and overlap do not change a bit of a sharded step") {
  Plan plan{.ranks = 3};
  const std::vector<float> expected = alone(plan);
  for (ShardLevel level : kLevels)
    for (const char* transport : {"inproc", "shm", "tcp"})
      for (bool overlap : {false, true}) {
        plan.level = level;
        plan.overlap = overlap;
        INFO("level " << static_cast<int>(level) << " over " << transport << ", overlap "
                      << overlap);
        REQUIRE((together(plan, transport) == expected));
      }
}

TEST_CASE("micro-batches of a sharded model are added up") {
  for (const LayerValues& layers : {kDense, kFilters})
    for (ShardLevel level : kLevels) {
      Plan plan{.layers = layers, .level = level, .ranks = 1, .micro_batches = 3};
      INFO(layers.size() << " layers, level " << static_cast<int>(level));
      REQUIRE((together(plan) == alone(plan))); // the sums have the same order
      plan.ranks = 2;
      REQUIRE(excess(alone(plan), together(plan)) <= 1);
    }
}

TEST_CASE("norms are those of whole weights: clipping and layer-wise rates work on shards",
          "[sums]") {
  for (const char* optimizer : {"sgd", "lars"})
    for (double clip : {0.0, 0.05})
      for (ShardLevel level : kLevels)
        for (int ranks : {1, 2, 5}) {
          const Plan plan{.level = level, .ranks = ranks, .optimizer = optimizer, .clip = clip};
          INFO(optimizer << ", limit " << clip << ", level " << static_cast<int>(level) << ", "
                         << ranks << " ranks");
          REQUIRE(excess(alone(plan), together(plan)) <= 1);
        }
}

TEST_CASE("groups with the same shards train like one rank with all samples") {
  for (ShardLevel level : kLevels)
    for (int micro_batches : {1, 2}) {
      const Plan plan{.level = level, .ranks = 2, .groups = 2, .micro_batches = micro_batches};
      INFO("level " << static_cast<int>(level) << ", " << micro_batches << " micro-batches");
      REQUIRE(excess(alone(plan), together(plan)) <= 1);
    }
}

TEST_CASE("a step gathers and reduces as many elements as the formula says") {
  for (ShardLevel level : kLevels)
    for (int micro_batches : {1, 3})
      for (std::size_t bytes : {0, 1000, 4000, 1 << 20}) { // 4, 3, 2 units and 1
        auto ranks = Communicator::createAll(2, plainOptions());
        REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
                  const training::ComputeThreads threads;
                  Network network(kDense, kShape);
                  const Plan plan{.ranks = 2, .micro_batches = micro_batches};
                  ShardedModel model(comm, nullptr, network, 1,
                                     {.level = level,
                                      .unit_bytes = {bytes},
                                      .optimizer = "sgd",
                                      .optimizer_settings = settings(),
                                      .micro_batches = micro_batches});
                  const training::TrafficQuestion question{
                      .level = level, .shards = 2, .micro_batches = micro_batches};
                  trainSteps(plan, comm.rank(), model, network);
                  const auto gathered = static_cast<double>(model.gatheredElements()) / kSteps;
                  const auto reduced = static_cast<double>(model.reducedElements()) / kSteps;
                  if (gathered != gatheredElements(model.layout(), question))
                    return "gathered " + std::to_string(gathered);
                  if (4 * (gathered + reduced) != shardTraffic(model.layout(), question))
                    return "reduced " + std::to_string(reduced);
                  return "";
                })) == "");
      }
}

TEST_CASE("a rank holds the predicted memory, before the first step and after the last") {
  for (ShardLevel level : kLevels)
    for (int micro_batches : {1, 2})
      for (const char* optimizer : {"sgd", "adamw"}) {
        auto ranks = Communicator::createAll(3, plainOptions());
        REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
                  const training::ComputeThreads threads;
                  Network network(kDense, kShape);
                  const Plan plan{.ranks = 3, .micro_batches = micro_batches};
                  ShardedModel model(comm, nullptr, network, 1,
                                     {.level = level,
                                      .unit_bytes = {0},
                                      .optimizer = optimizer,
                                      .optimizer_settings = settings(),
                                      .micro_batches = micro_batches});
                  const auto expected = predictedMemory(
                      model.layout(), {.level = level,
                                       .rank = static_cast<std::size_t>(comm.rank()),
                                       .arrays = training::optimizerKind(optimizer).arrays,
                                       .accumulates = micro_batches > 1});
                  const auto fits = [&] { return model.held() == expected; };
                  if (!fits()) return "another size when it is made";
                  trainSteps(plan, comm.rank(), model, network);
                  return fits() ? "" : "another size after the steps";
                })) == "");
      }
}

#endif

} // namespace rondo::test
