// Which streams a rank may use; launches of one communicator never run at the same time.

#include "device/cuda/cuda_machine.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

Options onGpu() {
  Options options = plainOptions();
  options.device = 0;
  options.timeout = std::chrono::seconds(5);
  return options;
}

/// Two ranks on device 0.
struct Pair {
  std::vector<Communicator> comm = Communicator::createAll(2, onGpu());
};

/// A graph of the work that `body` puts on the stream.
template <class Body>
cudaGraphExec_t captured(cudaStream_t stream, const Body& body) {
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  body();
  cudaGraph_t graph = nullptr;
  must(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable = nullptr;
  must(cudaGraphInstantiate(&executable, graph));
  must(cudaGraphDestroy(graph));
  return executable;
}

void join(cudaStream_t from, cudaStream_t to) {
  cudaEvent_t event = nullptr;
  must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  must(cudaEventRecord(event, from));
  must(cudaStreamWaitEvent(to, event));
  must(cudaEventDestroy(event));
}

} // namespace

// Proves: in a capture with a fork, calls on the branches follow each other in the graph in the
// order of the program, although nothing else orders the branches.
TEST_CASE("cuda: calls on two streams of one capture run one after the other") {
  const CudaMachine machine({.queues = 32});
  const CudaStream main[2], branch[2];
  Numbers first[2], second[2];
  {
    Pair ranks;
    cudaGraphExec_t graphs[2];
    for (int r : {0, 1}) {
      Communicator& comm = ranks.comm[static_cast<std::size_t>(r)];
      graphs[r] = captured(main[r].get(), [&] {
        comm.setStream(branch[r].handle()); // before it joins
        join(main[r].get(), branch[r].get());
        comm.setStream(main[r].handle());
        addUp(comm, first[r]);
        comm.setStream(branch[r].handle());
        addUp(comm, second[r]);
        comm.setStream(main[r].handle());
        addUp(comm, first[r]);
        join(branch[r].get(), main[r].get());
      });
    }
    for (int replay = 0; replay < 3; ++replay)
      for (int r : {0, 1}) must(cudaGraphLaunch(graphs[r], main[r].get()));
    for (int r : {0, 1}) must(cudaStreamSynchronize(main[r].get()));
    for (int r : {0, 1}) {
      CHECK(first[r].all(64));
      CHECK(second[r].all(8));
      must(cudaGraphExecDestroy(graphs[r]));
    }
  }
  CHECK(machine.complaints() == "");
}

// Proves: a call on another stream than the last call waits for that call, although the program
// does not order the two.
TEST_CASE("cuda: calls on two streams run one after the other") {
  const CudaMachine machine({.queues = 32});
  const CudaStream streams[2][2];
  Numbers first[2], second[2];
  {
    Pair ranks;
    std::vector<Work> works;
    for (std::size_t r : {0u, 1u}) { // rank 0's first call is still running when its second begins
      ranks.comm[r].setStream(streams[r][0].handle());
      works.push_back(addUp(ranks.comm[r], first[r]));
      ranks.comm[r].setStream(streams[r][1].handle());
      works.push_back(addUp(ranks.comm[r], second[r], kCount / 2));
    }
    CHECK(!caught([&] {
             for (Work& work : works) work.wait();
           }).threw);
    for (int r : {0, 1}) CHECK(first[r].all(2));
  }
  CHECK(machine.complaints() == "");
}

// Proves: launches that the library cannot know to be unordered (a replay on one stream, a call on
// another) end with a typed error when they overlap, and never with a wrong sum. Launches of one
// shape are distinguished by their lanes, launches of several shapes by their numbers.
TEST_CASE("cuda: a replay that overlaps a call is an error, not a wrong result") {
  for (const std::size_t count : {kCount, kCount / 2}) {
    INFO(count << " elements");
    const CudaMachine machine({.queues = 32});
    const CudaStream main[2], other;
    Numbers replayed[2], called;
    {
      Pair ranks;
      cudaGraphExec_t graphs[2];
      for (int r : {0, 1}) {
        ranks.comm[static_cast<std::size_t>(r)].setStream(main[r].handle());
        graphs[r] = captured(main[r].get(),
                             [&] { addUp(ranks.comm[static_cast<std::size_t>(r)], replayed[r]); });
      }
      // Rank 0's replay waits for rank 1, so its call on another stream certainly overlaps it.
      must(cudaGraphLaunch(graphs[0], main[0].get()));
      ranks.comm[0].setStream(other.handle());
      const Caught error = caught([&] { addUp(ranks.comm[0], called, count).wait(); });
      CHECK(error.code == ErrorCode::aborted);
      CHECK(error.text.find("at the same time") != std::string::npos);
      CHECK(error.culprit == 0);
      must(cudaStreamSynchronize(main[0].get())); // the replay ends too
      for (int r : {0, 1}) must(cudaGraphExecDestroy(graphs[r]));
    }
    CHECK(machine.complaints() == "");
  }
}

// Proves: the same if the call was in flight before its shape was captured: the graph's program is
// then a second copy, with another number.
TEST_CASE("cuda: a replay that overlaps an older call of its shape is an error") {
  const CudaMachine machine({.queues = 32});
  const CudaStream main, other;
  Numbers replayed, called;
  {
    Pair ranks;
    ranks.comm[0].setStream(other.handle());
    Work call = addUp(ranks.comm[0], called); // waits for rank 1
    ranks.comm[0].setStream(main.handle());
    cudaGraphExec_t graph = captured(main.get(), [&] { addUp(ranks.comm[0], replayed); });
    must(cudaGraphLaunch(graph, main.get()));
    const Caught error = caught([&] { call.wait(); });
    CHECK(error.code == ErrorCode::aborted);
    CHECK(error.text.find("at the same time") != std::string::npos);
    CHECK(error.culprit == 0);
    must(cudaStreamSynchronize(main.get()));
    must(cudaGraphExecDestroy(graph));
  }
  CHECK(machine.complaints() == "");
}

// Proves: streams on which two ranks of a process would wait for each other are refused by name
// before anything runs: the default stream under both names, blocking streams, one stream for two
// ranks.
TEST_CASE("cuda: streams that ranks cannot share are refused") {
  const CudaMachine machine;
  const CudaStream blocking(cudaStreamDefault), own;
  Numbers numbers;
  {
    Pair ranks;
    const auto refused = [&](Stream stream) {
      return caught([&] {
        ranks.comm[0].setStream(stream);
        addUp(ranks.comm[0], numbers).wait();
      });
    };
    for (const Stream stream :
         {Stream(), Stream(cudaStreamLegacy), Stream(cudaStreamPerThread), blocking.handle()})
      CHECK(refused(stream).code == ErrorCode::invalid_argument);
    ranks.comm[1].setStream(own.handle());
    const Caught both = refused(own.handle());
    CHECK(both.code == ErrorCode::invalid_argument);
    CHECK(both.text.find("rank 1") != std::string::npos);
    ranks.comm[1].setStream(Stream()); // releases the stream
    CHECK(!caught([&] { ranks.comm[0].setStream(own.handle()); }).threw);
  }
  CHECK(machine.complaints() == "");
}

// Proves: a stream that may use only a part of the device is refused, because the blocks that wait
// for each other might not all run.
TEST_CASE("cuda: streams of green contexts are refused") {
  const CudaMachine machine({.devices = 1, .multiprocessors = 16});
  auto* const green = static_cast<cudaStream_t>(machine.cuda.makeGreenStream(8));
  auto* const whole = static_cast<cudaStream_t>(machine.cuda.makeGreenStream(16));
  {
    Communicator comm = std::move(Communicator::createAll(1, onGpu())[0]);
    const Caught refused = caught([&] { comm.setStream(Stream(green)); });
    CHECK(refused.code == ErrorCode::unsupported);
    CHECK(refused.text.find("8 of 16 multiprocessors") != std::string::npos);
    CHECK(!caught([&] { comm.setStream(Stream(whole)); }).threw);
  }
  must(cudaStreamDestroy(green));
  must(cudaStreamDestroy(whole));
}

// Proves: a stream may be given to a communicator for the first time while it is being captured, as
// torch.cuda.graph does. The graph's sums are right, and so are calls on the stream afterwards.
TEST_CASE("cuda: a stream that is first seen in a capture") {
  const CudaMachine machine({.queues = 32});
  const CudaStream streams[2];
  Numbers replayed[2], called[2];
  {
    Pair ranks;
    cudaGraphExec_t graphs[2];
    const auto each = [&](auto&& body) {
      for (int r : {0, 1}) body(r, ranks.comm[static_cast<std::size_t>(r)]);
    };
    each([&](int r, Communicator& comm) {
      graphs[r] = captured(streams[r].get(), [&] {
        comm.setStream(streams[r].handle());
        addUp(comm, replayed[r]);
      });
    });
    each([&](int r, Communicator&) { must(cudaGraphLaunch(graphs[r], streams[r].get())); });
    std::vector<Work> works;
    each([&](int r, Communicator& comm) { works.push_back(addUp(comm, called[r])); });
    for (Work& work : works) work.wait();
    each([&](int r, Communicator&) {
      CHECK(replayed[r].all(2));
      CHECK(called[r].all(2));
      must(cudaGraphExecDestroy(graphs[r]));
    });
  }
  CHECK(machine.complaints() == "");
}

// Proves: what a capture hid about a stream is read by the first call after it: streams that ranks
// cannot share, or that have only a part of the device, are refused then.
TEST_CASE("cuda: a stream's properties are read after its capture") {
  const CudaMachine machine({.devices = 1, .multiprocessors = 16});
  const CudaStream blocking(cudaStreamDefault);
  auto* const green = static_cast<cudaStream_t>(machine.cuda.makeGreenStream(8));
  Numbers numbers;
  {
    Pair ranks;
    Communicator& comm = ranks.comm[0];
    const auto refusedAfterCapture = [&](cudaStream_t stream) {
      must(cudaGraphExecDestroy(captured(stream, [&] {
        comm.setStream(Stream(stream));
        addUp(comm, numbers);
      })));
      return caught([&] { addUp(comm, numbers).wait(); });
    };
    CHECK(refusedAfterCapture(blocking.get()).code == ErrorCode::invalid_argument);
    CHECK(refusedAfterCapture(green).code == ErrorCode::unsupported);
  }
  must(cudaStreamDestroy(green));
  CHECK(machine.complaints() == "");
}

} // namespace rondo::test
