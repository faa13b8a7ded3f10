// The number of runtime calls that a call costs, for new and for known shapes.
#include <algorithm>
#include <iostream>
#include <utility>

#include "device/cuda/cuda_machine.h"
#include "engine/device_tuning.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// Runtime calls of all ranks. Between counts, the test waits until all ranks are idle. Polling a
/// stream until it is done counts as a synchronization.
struct Count {
  int synchronizes, allocations, copies, pageable, clears, events, launches;
};

Count countOf(const FakeCuda& cuda) {
  return {cuda.calls("cudaStreamSynchronize") + cuda.calls("cudaEventSynchronize") +
              cuda.calls("cudaStreamQuery of a stream that is done"),
          cuda.calls("cudaMallocFromPoolAsync") + cuda.calls("cudaHostAlloc"),
          cuda.calls("cudaMemcpyAsync"),
          cuda.calls("cudaMemcpyAsync of pageable memory"),
          cuda.calls("cudaMemsetAsync"),
          cuda.calls("cudaEventCreateWithFlags"),
          cuda.calls("cudaLaunchKernelExC")};
}

std::ostream& operator<<(std::ostream& out, const Count& count) {
  return out << count.launches << " launches, " << count.synchronizes << " synchronizations, "
             << count.allocations << " allocations, " << count.copies << " copies ("
             << count.pageable << " of pageable memory), " << count.clears << " clears, "
             << count.events << " events made";
}

constexpr std::size_t kMost = 30'000;

/// Ranks on one device, each with a stream and memory of its own, initialized to 1.
class World {
 public:
  explicit World(int ranks)
      : machine({.devices = 1, .queues = 32}), numbers_(std::size_t(ranks) * 2 * kMost, 1) {
    Options options = plainOptions();
    options.device = 0;
    comm = Communicator::createAll(ranks, options);
    must(cudaHostRegister(numbers_.data(), numbers_.size() * sizeof(float), 0));
    for (Communicator& one : comm) {
      streams.push_back(std::make_unique<CudaStream>());
      one.setStream(streams.back()->handle());
    }
  }
  ~World() { cudaHostUnregister(numbers_.data()); }

  float* input(const Communicator& one) {
    return numbers_.data() + static_cast<std::size_t>(one.rank()) * 2 * kMost;
  }
  float* output(const Communicator& one) { return input(one) + kMost; }

  std::string reduce(Communicator& one, std::size_t count) {
    std::fill_n(output(one), count, 0.0f);
    one.allReduce(input(one), output(one), count, DataType::float32, ReduceOp::sum);
    return complaint(one, count, static_cast<float>(one.size()));
  }
  /// Sends to the next rank and receives from the one before.
  std::string passOn(Communicator& one, std::size_t count) {
    std::fill_n(output(one), count, 0.0f);
    Group group;
    one.send(input(one), count, DataType::float32, (one.rank() + 1) % one.size());
    one.recv(output(one), count, DataType::float32, (one.rank() + one.size() - 1) % one.size());
    group.end();
    return complaint(one, count, 1);
  }
  std::string complaint(const Communicator& one, std::size_t count, float due) {
    const float* const first = output(one);
    const float* const wrong =
        std::find_if(first, first + count, [due](float x) { return x != due; });
    if (wrong == first + count) return {};
    return "of " + std::to_string(count) + ", number " + std::to_string(wrong - first) + " is " +
           std::to_string(*wrong);
  }

  /// The runtime calls of the body on all ranks. The body returns what was wrong.
  template <class Body>
  Count counted(const Body& body) {
    machine.cuda.held(); // all work on the streams has run
    machine.cuda.clearCalls();
    const std::string wrong =
        firstComplaint(onRanks(comm, [&](Communicator& one) { return body(one); }));
    CHECK(wrong == "");
    return countOf(machine.cuda);
  }

  const CudaMachine machine;
  std::vector<std::unique_ptr<CudaStream>> streams;

 private:
  std::vector<float> numbers_;

 public:
  std::vector<Communicator> comm; ///< last member, so that it is destroyed first
};

} // namespace

// Proves: a call of a known shape, or a group of messages of known shapes, is one launch and waits
// for nothing. A new shape adds one copy, without a wait or an allocation, for any number of
// channels.
TEST_CASE("cuda: calls of the runtime for new shapes and known ones") {
  for (const int ranks : {2, 4}) {
    World world(ranks);
    const auto reduces = [&world](std::size_t count) {
      return world.counted([&](Communicator& one) { return world.reduce(one, count); });
    };
    const auto passesOn = [&world](std::size_t count) {
      return world.counted([&](Communicator& one) { return world.passOn(one, count); });
    };
    const Count first = reduces(30'000);
    const Count other = reduces(29'000);
    const std::size_t other_bytes = world.machine.cuda.copied();
    const Count known = reduces(29'000);
    const Count message = passesOn(20'000);
    const Count longer = passesOn(21'000);
    const std::size_t longer_bytes = world.machine.cuda.copied();
    const Count again = passesOn(21'000);
    std::cout << ranks << " ranks, all together:\n  first call: " << first
              << "\n  another shape: " << other << ", " << other_bytes
              << " bytes\n  a known shape: " << known << "\n  first messages: " << message
              << "\n  other messages: " << longer << ", " << longer_bytes
              << " bytes\n  known messages: " << again << "\n";
    for (const Count& one : {known, again}) {
      CHECK(one.launches == ranks);
      CHECK(one.synchronizes + one.allocations + one.copies + one.clears == 0);
    }
    // Each of a group's two messages has a shape of its own.
    for (const auto& [one, shapes] : {std::pair(other, ranks), std::pair(longer, 2 * ranks)}) {
      CHECK(one.launches == ranks);
      CHECK(one.copies == shapes);
      CHECK(one.synchronizes + one.allocations + one.pageable + one.clears == 0);
    }
    CHECK(world.machine.complaints() == "");
  }
}

// Proves: calls whose counts always differ wait for nothing and allocate nothing, also if there are
// more than the memory for programs holds: they replace older programs, and each result is right.
TEST_CASE("cuda: a count that is new with every call never waits") {
  constexpr int kCalls = 600, kRanks = 2;
  World world(kRanks);
  const auto calls = [&world](std::size_t first, int number) {
    return world.counted([&world, first, number](Communicator& one) {
      std::string wrong;
      for (std::size_t i = 0; i < std::size_t(number) && wrong.empty(); ++i) {
        wrong = world.reduce(one, first - i * 47);
        if (wrong.empty()) wrong = world.passOn(one, first - i * 47);
      }
      return wrong;
    });
  };
  calls(kMost, 3); // the largest, and the smallest
  calls(3, 1);
  const auto held = world.machine.cuda.held();
  const Count count = calls(kMost - 1, kCalls);
  std::cout << kCalls << " counts, two ranks together: " << count << ", "
            << world.machine.cuda.copied() << " bytes\n";
  CHECK(world.machine.cuda.copied() > kRanks * engine::kProgramBytes);
  CHECK(count.launches == kCalls * kRanks * 2);
  CHECK(count.copies == kCalls * kRanks * 3);
  CHECK(count.synchronizes + count.allocations + count.pageable + count.clears + count.events == 0);
  CHECK(world.machine.cuda.held() == held);
  CHECK(world.machine.complaints() == "");
}

} // namespace rondo::test
