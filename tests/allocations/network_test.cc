// Tests that a pass through a network reuses the tensors of an earlier pass with the same batch
// size. oneDNN itself makes only small allocations to run a primitive.
#ifdef RONDO_HAVE_DNNL
#include "allocations/counting_new.h"
#include "support/test.h"
#include "train/layers/owner.h"

namespace rondo::test {
namespace {

using namespace training;

/// Large allocations of one training step and one evaluation.
std::size_t step(Network& network, const Batch& batch) {
  const std::size_t before = largeAllocations();
  network.forward(batch, {.seed = 1, .sum_over_ranks = {}});
  network.backward([](std::size_t) {});
  network.moveState(1);
  network.weightsChanged();
  network.evaluate(batch);
  return largeAllocations() - before;
}

} // namespace

TEST_CASE("a second pass over a batch of the same size allocates no tensor", "[allocations]") {
  const Convolution convolution{16, {.kernel = 3, .padding = 1}};
  const LayerValues every = {convolution,
                             BatchNorm{},
                             Relu{},
                             MaxPool{{.kernel = 2}},
                             Residual{{convolution, BatchNorm{}}, {}},
                             Relu{},
                             AveragePool{{.kernel = 2}},
                             Dropout{0.5},
                             Flatten{},
                             Linear{64},
                             Relu{},
                             Linear{10}};
  const SampleShape shape = {1, 12, 12};
  Network network(every, shape);
  const Owner owner(network);
  const MadeUp samples(shape, 10, 8), fewer(shape, 10, 3);
  CHECK(step(network, samples.batch()) > 0);
  CHECK(step(network, fewer.batch()) > 0);
  for (int i = 0; i < 3; ++i) {
    CHECK(step(network, samples.batch()) == 0);
    CHECK(step(network, fewer.batch()) == 0);
  }
}

} // namespace rondo::test

#endif
