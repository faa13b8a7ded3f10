// Tests a GPU whose work does not end: every wait ends with an error in time.
#include <atomic>

#include "support/caught.h"
#include "train/layers/cudnn/fake/objects.h"
#include "train/layers/cudnn/twin.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr SampleShape kShape{2, 3, 4};
constexpr std::size_t kClasses = 5, kCount = 3;
constexpr std::chrono::milliseconds kTimeout{1000};
const LayerValues kLayers = {Convolution{4, {.kernel = 3, .padding = 1}}, BatchNorm{}, Flatten{},
                             Linear{kClasses}};

/// A device whose first hardware queue is blocked by work of another stream.
class HeldDevice {
 public:
  explicit HeldDevice(const FakeCuda::Settings& settings = {.queues = 1}) : cuda_(settings) {
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~HeldDevice() {
    release();
    cudaStreamSynchronize(other_);
    cudaStreamDestroy(other_);
  }
  HeldDevice(const HeldDevice&) = delete;
  HeldDevice& operator=(const HeldDevice&) = delete;

  FakeCuda& cuda() { return cuda_; }
  void hold() {
    cudaSetDevice(0);
    held_ = true;
    fake_libraries::put(other_, [this] { held_.wait(true); });
    fake_libraries::put(other_, [] {}); // blocks the head of the queue, before all later work
  }
  void release() {
    held_ = false;
    held_.notify_all();
  }

 private:
  FakeCuda cuda_;
  FakeLibraries libraries_;
  std::atomic<bool> held_ = false;
  cudaStream_t other_ = nullptr;
};

std::unique_ptr<Program> programOf(const Model& model, bool ends = true) {
  Binding binding = bindingOf(model, true, kCount);
  binding.ends = ends;
  return cudnn::makeProgram(model.nodes, binding, {.number = 0, .timeout = kTimeout});
}

} // namespace

TEST_CASE("a pass on a stuck GPU ends in time, and names the work that did not complete") {
  HeldDevice device;
  Model model(kLayers, kShape);
  const MadeUp samples(kShape, kClasses, kCount);
  const Pass over_ranks{.seed = 0, .sum_over_ranks = [](float*, std::size_t) {}};
  const auto whole = programOf(model), part = programOf(model, false);
  whole->forward(samples.batch(), {});
  device.hold();
  CHECK(says(caught([&] { whole->backward(nullptr, [](std::size_t) {}); }), ErrorCode::timeout,
             {"GPU 0", "the gradient of 3.weight", "1000 ms"}));
  CHECK(says(caught([&] { whole->forward(samples.batch(), {}); }), ErrorCode::timeout,
             {"GPU 0", "the work of the previous pass", "1000 ms"}));
  CHECK(says(caught([&] { part->forward(samples.batch(), {}); }), ErrorCode::timeout,
             {"GPU 0", "the output of its layers", "1000 ms"}));
  const auto other = programOf(model);
  CHECK(says(caught([&] { other->forward(samples.batch(), over_ranks); }), ErrorCode::timeout,
             {"layer 1: GPU 0", "a batch's statistics", "1000 ms"}));
  const auto last = programOf(model);
  CHECK(says(caught([&] { last->forward(samples.batch(), {}); }), ErrorCode::timeout,
             {"GPU 0", "the loss", "1000 ms"}));

  device.release();
  const auto step = [&] {
    whole->forward(samples.batch(), {});
    whole->backward(nullptr, [](std::size_t) {});
  };
  bool moves = false;
  for (int i = 0; i < 100 && !moves; ++i) moves = !caught(step).threw;
  CHECK(moves);
}

TEST_CASE("a program whose work does not end keeps its memory, and is still destroyed in time") {
  HeldDevice device;
  Model model(kLayers, kShape);
  const MadeUp samples(kShape, kClasses, kCount);
  auto program = programOf(model);
  const auto held = device.cuda().held();
  device.hold();
  CHECK(caught([&] { program->forward(samples.batch(), {}); }).code == ErrorCode::timeout);
  program.reset();
  device.release();
  CHECK(device.cuda().held() == held);
  programOf(model).reset(); // no work is running any more
  CHECK(device.cuda().held() == held);
  CHECK(device.cuda().complaints() == std::vector<std::string>{});
}

TEST_CASE("while a program's work does not end, other programs are destroyed without waiting") {
  // Freeing memory or handles waits for all work on the device.
  HeldDevice device({.queues = 2, .pessimistic = true});
  Model model(kLayers, kShape);
  const MadeUp samples(kShape, kClasses, kCount);
  auto idle = programOf(model);    // uses the second queue
  auto program = programOf(model); // uses the first queue
  idle->forward(samples.batch(), {});
  const auto held = device.cuda().held();
  auto elsewhere = cudnn::makeProgram(model.nodes, bindingOf(model, true, kCount),
                                      {.number = 1, .timeout = kTimeout});
  device.hold();
  CHECK(caught([&] { program->forward(samples.batch(), {}); }).code == ErrorCode::timeout);
  const auto begin = std::chrono::steady_clock::now();
  idle.reset();
  program.reset();
  elsewhere.reset();
  CHECK(std::chrono::steady_clock::now() - begin < kTimeout);
  device.release();
  CHECK(device.cuda().held() == held);
  programOf(model).reset();
  CHECK(device.cuda().held() == held);
  CHECK(device.cuda().complaints() == std::vector<std::string>{});
}

} // namespace rondo::test
