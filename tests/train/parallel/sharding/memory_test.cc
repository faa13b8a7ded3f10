// Compares the memory that a sharded model reports with the growth of the process.
#include <malloc.h>
#include <unistd.h>

#include <fstream>

#include "support/ranks.h"
#include "support/test.h"
#include "train/loop/compute_threads.h"
#include "train/parallel/sharding/model.h"

namespace rondo::test {

// Sanitizers use additional memory for each byte.
#if defined(RONDO_HAVE_DNNL) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

using training::Network;
using training::ShardedModel;
using training::ShardLevel;

namespace {

constexpr int kRanks = 4;
constexpr training::SampleShape kShape{1, 32, 32};
/// Five units of 4 MiB and a small one.
const training::LayerValues kLayers = {
    training::Flatten{},    training::Linear{1024}, training::Linear{1024}, training::Linear{1024},
    training::Linear{1024}, training::Linear{1024}, training::Linear{10}};

/// Resident memory of this process in bytes.
double residentBytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

struct Grown {
  double resident = 0, held = 0; ///< bytes of all ranks together
};

/// The growth by two steps of a model. Communicator and backend have been used before.
Grown grownBy(ShardLevel level) {
  Grown grown;
  auto ranks = Communicator::createAll(kRanks, plainOptions());
  std::vector<std::uint64_t> held(kRanks);
  const auto once = [&](bool measured) {
    double before = 0;
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              const training::ComputeThreads threads;
              Network network(kLayers, kShape);
              comm.barrier();
              if (comm.rank() == 0) {
                ::malloc_trim(0); // returns memory that the previous run freed
                before = residentBytes();
              }
              comm.barrier();
              ShardedModel model(comm, nullptr, network, 1,
                                 {.level = level,
                                  .unit_bytes = {0},
                                  .optimizer = "sgd",
                                  .optimizer_settings = {.momentum = 0.9}});
              const std::vector<float> inputs(kShape.size(), 0.5F);
              const std::uint8_t label = 3;
              const std::uint32_t number = 0;
              for (int step = 0; step < 2; ++step) {
                model.beginForward();
                network.forward({1, inputs.data(), &label, &number}, {});
                model.beginBackward();
                network.backward([&](std::size_t weight) { model.gradientReady(weight); });
                model.endBackward();
                model.update(0.01, 1, 0);
              }
              held[static_cast<std::size_t>(comm.rank())] = model.held().total();
              model.beginEvaluation(); // all collectives have completed
              comm.barrier();
              if (comm.rank() == 0 && measured) grown.resident = residentBytes() - before;
              comm.barrier();
              network.forward({1, inputs.data(), &label, &number}, {});
              return {};
            })) == "");
  };
  once(false);
  once(true);
  for (std::uint64_t bytes : held) grown.held += static_cast<double>(bytes);
  return grown;
}

} // namespace

TEST_CASE("a sharded model uses the memory that it reports, and no more") {
  for (ShardLevel level : {ShardLevel::optimizer, ShardLevel::gradients, ShardLevel::parameters}) {
    const Grown grown = grownBy(level);
    INFO("level " << static_cast<int>(level) << ": all ranks say " << grown.held / (1 << 20)
                  << " MiB, the process has grown by " << grown.resident / (1 << 20) << " MiB");
    CHECK(grown.resident <= 1.1 * grown.held);
    CHECK(grown.resident >= 0.9 * grown.held);
  }
}

#endif

} // namespace rondo::test
