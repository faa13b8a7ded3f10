// Send and Recv through the public calls on a real GPU: that the kernel of batches runs there, and
// that what all ranks launch is resident at once.
#include <algorithm>
#include <chrono>
#include <vector>

#include "device/gpu/on_gpu.h"
#include "support/test.h"
#include "tests/kernels/gpu/gpu.h"

namespace rondo::test {
namespace {

/// One rank: a stream, a block to send to each rank and one from each, at odd addresses.
class Rank {
 public:
  Rank(Communicator& comm, std::size_t bytes)
      : comm_(comm), bytes_(bytes), sent_(blocks() * bytes), received_(sent_.size()) {
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    must(cudaMallocAsync(&memory_, 2 * sent_.size() + 1, stream_));
    comm.setStream(Stream(stream_));
  }
  ~Rank() {
    cudaStreamSynchronize(stream_);
    comm_.setStream(Stream());
    if (graph_) cudaGraphExecDestroy(graph_);
    cudaFree(memory_);
    cudaStreamDestroy(stream_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void fill(int round) {
    for (std::size_t to = 0; to < blocks(); ++to)
      for (std::size_t i = 0; i < bytes_; ++i)
        sent_[to * bytes_ + i] = byteOf(comm_.rank(), static_cast<int>(to), round, i);
    must(cudaMemcpyAsync(out(0), sent_.data(), sent_.size(), cudaMemcpyHostToDevice, stream_));
    must(cudaMemsetAsync(in(0), 0, sent_.size(), stream_));
  }
  /// Everybody to everybody, itself included.
  void exchange() {
    Group group;
    for (int peer = 0; peer < comm_.size(); ++peer) {
      comm_.send(out(peer), bytes_, DataType::uint8, peer);
      comm_.recv(in(peer), bytes_, DataType::uint8, peer);
    }
    group.start().wait();
  }
  void capture() {
    cudaGraph_t recorded = nullptr;
    must(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    exchange();
    must(cudaStreamEndCapture(stream_, &recorded));
    must(cudaGraphInstantiate(&graph_, recorded, 0));
    cudaGraphDestroy(recorded);
    must(cudaGraphUpload(graph_, stream_)); // not later, when others' kernels run
    await(stream_);
  }
  void replay() { must(cudaGraphLaunch(graph_, stream_)); }
  void passOn() { // lone calls: rank 0 begins
    if (comm_.rank() > 0)
      comm_.recv(in(comm_.rank() - 1), bytes_, DataType::uint8, comm_.rank() - 1);
    if (comm_.rank() + 1 < comm_.size())
      comm_.send(out(comm_.rank() + 1), bytes_, DataType::uint8, comm_.rank() + 1);
  }
  /// What is wrong with the blocks from ranks [first, stop).
  std::string wrong(int first, int stop, int round) {
    await(stream_);
    must(cudaMemcpyAsync(received_.data(), in(0), received_.size(), cudaMemcpyDeviceToHost,
                         stream_));
    must(cudaStreamSynchronize(stream_));
    for (int from = first; from < stop; ++from)
      for (std::size_t i = 0; i < bytes_; ++i)
        if (received_[static_cast<std::size_t>(from) * bytes_ + i] !=
            byteOf(from, comm_.rank(), round, i))
          return "byte " + std::to_string(i) + " from rank " + std::to_string(from);
    return {};
  }

 private:
  static std::byte byteOf(int from, int to, int round, std::size_t i) {
    return static_cast<std::byte>(static_cast<std::size_t>(1 + from * 37 + to * 11 + round) + i);
  }
  std::size_t blocks() const { return static_cast<std::size_t>(comm_.size()); }
  std::byte* out(int peer) {
    return static_cast<std::byte*>(memory_) + static_cast<std::size_t>(peer) * bytes_;
  }
  std::byte* in(int peer) { return out(peer) + sent_.size() + 1; }

  Communicator& comm_;
  const std::size_t bytes_;
  std::vector<std::byte> sent_, received_;
  cudaStream_t stream_ = nullptr;
  void* memory_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
};

} // namespace

// Proves: a group of messages is right by either protocol and transport, launched and replayed,
// with more peers than blocks (8 ranks) and fewer; and so are lone calls.
TEST_CASE("device messages on a GPU: groups, graphs and lone calls, 1 to 8 ranks") {
  NEEDS_GPU();
  for (const char* transport : {"nvlink", "pcie", "tcp"})
    for (int ranks : {1, 2, 3, 5, 8})
      for (std::size_t bytes : {std::size_t{0}, std::size_t{1001}, std::size_t{3'000'001}}) {
        INFO(transport << ", " << ranks << " ranks, " << bytes << " bytes");
        auto world = Communicator::createAll(ranks, onGpu(transport));
        REQUIRE(firstComplaint(onRanks(world, [&](Communicator& comm) -> std::string {
                  Rank rank(comm, bytes);
                  rank.fill(0);
                  rank.exchange();
                  if (std::string wrong = rank.wrong(0, ranks, 0); !wrong.empty()) return wrong;
                  rank.capture();
                  for (int round : {1, 2}) {
                    rank.fill(round);
                    rank.replay();
                    if (std::string wrong = rank.wrong(0, ranks, round); !wrong.empty())
                      return "replayed: " + wrong;
                  }
                  rank.fill(3);
                  rank.passOn();
                  return rank.wrong(std::max(comm.rank() - 1, 0), comm.rank(), 3);
                })) == "");
      }
}

// Proves: a receive that waits in vain ends with the typed error that names the peer.
TEST_CASE("device messages on a GPU: a peer that never comes") {
  NEEDS_GPU();
  Options options = onGpu();
  options.timeout = std::chrono::seconds(1);
  auto world = Communicator::createAll(2, options);
  Rank rank(world[1], 1000);
  std::string text;
  try {
    rank.passOn();
  } catch (const Error& error) {
    text = error.what();
  }
  CHECK(text.find("waiting to receive from rank 0") != std::string::npos);
}

} // namespace rondo::test
