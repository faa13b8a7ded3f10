// Device buffers through the public calls on a real GPU, all ranks on one. What tests/device cannot
// show: that the CUDA runtime does what its stand-in does (streams, marks, captures, memory that
// other processes map), and that all ranks' kernels are resident at once.
#include <thread>

#include "device/gpu/on_gpu.h"
#include "support/collective_case.h"
#include "support/test.h"
#include "tests/kernels/gpu/gpu.h"

namespace rondo::test {
namespace {

/// One rank: a stream, and memory that its calls' buffers are copied to and from.
class Rank {
 public:
  explicit Rank(Communicator& comm) : comm_(comm) {
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    comm.setStream(Stream(stream_));
  }
  ~Rank() {
    cudaStreamSynchronize(stream_);
    comm_.setStream(Stream());
    cudaStreamDestroy(stream_);
    for (void* memory : memory_) cudaFree(memory);
    if (graph_) cudaGraphExecDestroy(graph_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  /// As CollectiveCase::run(). With replays the call is captured, and the graph replayed so often.
  std::string run(const CollectiveCase& one, int replays = 0) {
    const CollectiveBuffers buffers(one, comm_.rank(), comm_.size());
    const auto parts = buffers.memory();
    while (memory_.size() < parts.size()) memory_.push_back(nullptr);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      must(cudaFreeAsync(memory_[i], stream_));
      must(cudaMallocAsync(&memory_[i], parts[i].size(), stream_));
      must(cudaMemcpyAsync(memory_[i], parts[i].data(), parts[i].size(), cudaMemcpyHostToDevice,
                           stream_));
    }
    const void* input = onDevice(buffers.input(), parts);
    void* output = onDevice(buffers.output(), parts);
    if (replays == 0) {
      one.start(comm_, input, output).wait();
    } else {
      capture(one, input, output);
      for (int i = 0; i < replays; ++i) must(cudaGraphLaunch(graph_, stream_));
    }
    await(stream_);
    for (std::size_t i = 0; i < parts.size(); ++i)
      must(cudaMemcpyAsync(parts[i].data(), memory_[i], parts[i].size(), cudaMemcpyDeviceToHost,
                           stream_));
    must(cudaStreamSynchronize(stream_));
    return buffers.wrong();
  }

 private:
  void capture(const CollectiveCase& one, const void* input, void* output) {
    cudaGraph_t recorded = nullptr;
    must(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    one.start(comm_, input, output).wait();
    must(cudaStreamEndCapture(stream_, &recorded));
    if (graph_) cudaGraphExecDestroy(graph_);
    must(cudaGraphInstantiate(&graph_, recorded, 0));
    cudaGraphDestroy(recorded);
    must(cudaGraphUpload(graph_, stream_)); // not later, when others' kernels run
    await(stream_);
  }
  void* onDevice(const void* host, const std::vector<std::span<std::byte>>& parts) const {
    const auto* at = static_cast<const std::byte*>(host);
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (at && at >= parts[i].data() && at < parts[i].data() + parts[i].size())
        return static_cast<std::byte*>(memory_[i]) + (at - parts[i].data());
    return nullptr;
  }

  Communicator& comm_;
  cudaStream_t stream_ = nullptr;
  std::vector<void*> memory_;
  cudaGraphExec_t graph_ = nullptr;
};

std::vector<CollectiveCase> everyCollective(std::vector<std::size_t> counts) {
  std::vector<CollectiveCase> cases;
  for (Collective collective : kCollectives)
    for (std::size_t count : counts)
      if (collective != Collective::sendrecv)
        cases.push_back({.collective = collective,
                         .count = count,
                         .type = DataType::float32,
                         .in_place = count % 2 == 1 && collective != Collective::alltoall});
  return cases;
}

std::string runAll(int ranks, const Options& options, const std::vector<CollectiveCase>& cases,
                   int replays = 0) {
  auto world = Communicator::createAll(ranks, options);
  return firstComplaint(onRanks(world, [&](Communicator& comm) -> std::string {
    Rank rank(comm);
    for (const CollectiveCase& one : cases)
      if (std::string wrong = rank.run(one, replays); !wrong.empty()) return wrong;
    return {};
  }));
}

} // namespace

// Proves: public calls on device memory give the right result, by either protocol and transport.
TEST_CASE("device buffers on a GPU: every collective, 1 to 8 ranks") {
  NEEDS_GPU();
  for (const char* transport : {"nvlink", "pcie", "tcp"})
    for (int ranks : {1, 2, 3, 4, 5, 7, 8}) {
      INFO(transport << ", " << ranks << " ranks");
      REQUIRE(runAll(ranks, onGpu(transport), everyCollective({0, 1, 1000, 300'001})) == "");
    }
}

// Proves: a captured call can be replayed, and what it left in the channels serves the next one;
// over tcp the proxies, which hear of no replay, move its messages.
TEST_CASE("device buffers on a GPU: replayed graphs") {
  NEEDS_GPU();
  for (const char* transport : {"", "tcp"})
    for (int ranks : {1, 2, 4}) {
      INFO(transport << ", " << ranks << " ranks");
      REQUIRE(runAll(ranks, onGpu(transport), everyCollective({1000, 300'000}), 5) == "");
    }
}

// Proves: every type and operator, through the library's own choice of kernel.
TEST_CASE("device buffers on a GPU: every type and operator") {
  NEEDS_GPU();
  std::vector<CollectiveCase> cases;
  for (DataType type : kDataTypes)
    for (ReduceOp op : kReduceOps)
      if (op.supports(type))
        for (std::size_t count : {std::size_t{100}, std::size_t{100'001}})
          cases.push_back({.count = count, .type = type, .op = op});
  REQUIRE(runAll(2, onGpu(), cases) == "");
}

// Proves: a kernel that waits in vain ends with the typed error, and the GPU goes on.
TEST_CASE("device buffers on a GPU: a rank that never comes, and an abort") {
  NEEDS_GPU();
  for (bool aborted : {false, true}) {
    Options options = onGpu();
    options.timeout = std::chrono::seconds(aborted ? 60 : 1);
    auto world = Communicator::createAll(2, options);
    const auto begin = std::chrono::steady_clock::now();
    std::jthread other;
    if (aborted)
      other = std::jthread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        world[1].abort("enough");
      });
    ErrorCode code{};
    try {
      Rank rank(world[0]);
      rank.run({.count = 100'000, .type = DataType::float32});
    } catch (const Error& error) {
      code = error.code();
    }
    CHECK(code == (aborted ? ErrorCode::aborted : ErrorCode::timeout));
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
    CHECK(runAll(2, onGpu(), everyCollective({1000})) == "");
  }
}

// Proves: memory that is not the device's is refused by name.
TEST_CASE("device buffers on a GPU: host memory is refused") {
  NEEDS_GPU();
  auto world = Communicator::createAll(1, onGpu());
  std::vector<float> host(100);
  std::string text;
  try {
    world[0].allReduce(host.data(), host.data(), 100, DataType::float32, ReduceOp::sum);
  } catch (const Error& error) {
    text = error.what();
  }
  CHECK(text.find("not memory that the device") != std::string::npos);
}

} // namespace rondo::test
