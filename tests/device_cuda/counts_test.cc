// What a call costs in calls of the runtime: of a shape that is new, and of one that is known.
#include <iostream>
#include <utility>

#include "device_cuda/cuda_machine.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// Calls of the runtime by all ranks, waited for in between so that nobody is in the middle.
struct Count {
  int synchronizes, allocations, copies, clears, launches;
};

Count countOf(const FakeCuda& cuda) {
  return {cuda.calls("cudaStreamSynchronize"), cuda.calls("cudaMallocFromPoolAsync"),
          cuda.calls("cudaMemcpyAsync"), cuda.calls("cudaMemsetAsync"),
          cuda.calls("cudaLaunchKernelExC")};
}

std::ostream& operator<<(std::ostream& out, const Count& count) {
  return out << count.launches << " launches, " << count.synchronizes << " synchronizations, "
             << count.allocations << " allocations, " << count.copies << " copies, " << count.clears
             << " clears";
}

/// Of the body, on all ranks.
template <class Body>
Count counted(CudaMachine& machine, std::vector<Communicator>& comm, const Body& body) {
  machine.cuda.held(); // all that is on streams has run
  machine.cuda.clearCalls();
  const std::string wrong = firstComplaint(onRanks(comm, [&](Communicator& one) {
    body(one);
    return std::string();
  }));
  CHECK(wrong == "");
  return countOf(machine.cuda);
}

} // namespace

// Proves: a call of a known shape, or a group of messages of known ones, is one launch and waits
// for nothing; a new shape is one allocation, one upload and one wait for it, whatever the number
// of channels.
TEST_CASE("cuda: calls of the runtime for new shapes and known ones") {
  for (const int ranks : {2, 4}) {
    CudaMachine machine({.devices = 1, .queues = 32});
    std::vector<std::unique_ptr<CudaStream>> streams;
    Options options = plainOptions();
    options.device = 0;
    std::vector<Communicator> comm = Communicator::createAll(ranks, options);
    std::vector<float> numbers(8 * 30'000);
    must(cudaHostRegister(numbers.data(), numbers.size() * sizeof(float), 0));
    for (Communicator& one : comm) {
      streams.push_back(std::make_unique<CudaStream>());
      one.setStream(streams.back()->handle());
    }
    const auto reduceOf = [&](std::size_t count) {
      return [&numbers, count](Communicator& one) {
        float* const own = numbers.data() + static_cast<std::size_t>(one.rank()) * 30'000;
        one.allReduce(own, own, count, DataType::float32, ReduceOp::sum);
      };
    };
    const auto passOn = [&numbers, ranks](std::size_t count) {
      return [&numbers, ranks, count](Communicator& one) {
        float* const own = numbers.data() + static_cast<std::size_t>(one.rank()) * 30'000;
        Group group;
        one.send(own, count, DataType::float32, (one.rank() + 1) % ranks);
        one.recv(own + 4 * 30'000, count, DataType::float32, (one.rank() + ranks - 1) % ranks);
        group.end();
      };
    };
    const Count first = counted(machine, comm, reduceOf(30'000));
    const Count other = counted(machine, comm, reduceOf(29'000));
    const Count known = counted(machine, comm, reduceOf(29'000));
    const Count message = counted(machine, comm, passOn(20'000));
    const Count longer = counted(machine, comm, passOn(21'000));
    const Count again = counted(machine, comm, passOn(21'000));
    std::cout << ranks << " ranks, all together:\n  first call: " << first
              << "\n  another shape: " << other << "\n  a known shape: " << known
              << "\n  first messages: " << message << "\n  other messages: " << longer
              << "\n  known messages: " << again << "\n";
    for (const Count& one : {known, again}) {
      CHECK(one.launches == ranks);
      CHECK(one.synchronizes + one.allocations + one.copies + one.clears == 0);
    }
    // Of a group's two messages each is a shape of its own.
    for (const auto& [one, shapes] : {std::pair(other, ranks), std::pair(longer, 2 * ranks)}) {
      CHECK(one.launches == ranks);
      CHECK(one.synchronizes == shapes);
      CHECK(one.allocations == shapes);
      CHECK(one.copies == shapes);
      CHECK(one.clears == 0);
    }
    must(cudaHostUnregister(numbers.data()));
    CHECK(machine.complaints() == "");
    comm.clear();
  }
}

} // namespace rondo::test
