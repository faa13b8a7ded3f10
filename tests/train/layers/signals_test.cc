// Tests signals that arrive while a thread computes.
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>

#include "support/test.h"
#include "train/layers/owner.h"
#include "train/models/model.h"

namespace rondo::test {
namespace {

using namespace training;

std::atomic<int> handled{0};

/// Runs a signal handler on this thread again and again, on the thread's current stack.
class Interrupted {
 public:
  Interrupted() {
    struct sigaction action {};
    action.sa_handler = [](int) { ++handled; };
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, &before_);
    constexpr suseconds_t kEvery = 200;
    const itimerval timer = {{0, kEvery}, {0, kEvery}};
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
  ~Interrupted() {
    const itimerval off = {};
    setitimer(ITIMER_REAL, &off, nullptr);
    sigaction(SIGALRM, &before_, nullptr);
  }
  Interrupted(const Interrupted&) = delete;
  Interrupted& operator=(const Interrupted&) = delete;

 private:
  struct sigaction before_ {};
};

std::vector<float> gradients(Network& network, const Batch& batch) {
  network.forward(batch, {});
  network.backward([](std::size_t) {});
  std::vector<float> all;
  for (const Weight* weight : network.weights())
    all.insert(all.end(), weight->gradient, weight->gradient + weight->size());
  return all;
}

} // namespace

// Some compiled kernels of oneDNN use the stack pointer as a general register: a handler on that
// stack would overwrite tensors.
TEST_CASE("a signal handler does not disturb a pass") {
  const auto [model, shape, count] = GENERATE(std::tuple("mlp", SampleShape{1, 15, 16}, 4096),
                                              std::tuple("cnn", SampleShape{1, 15, 16}, 64),
                                              std::tuple("resnet18", SampleShape{3, 8, 8}, 8));
  CAPTURE(model);
  Network network(model, shape, 10);
  const Owner owner(network);
  const MadeUp samples(shape, 10, count);
  const std::vector<float> undisturbed = gradients(network, samples.batch());
  const Interrupted interrupted;
  const int before = handled;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  do {
    REQUIRE(gradients(network, samples.batch()) == undisturbed);
  } while (handled - before < 20 || std::chrono::steady_clock::now() < end);
}

} // namespace rondo::test
