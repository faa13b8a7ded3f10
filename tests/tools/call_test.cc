// Proves that the benchmark's check finds a single wrong element, in every collective, at
// every position.
#include <thread>

#include "rondo/communicator.h"
#include "support/test.h"
#include "tools/bench/call.h"
#include "tools/bench/shape.h"

namespace rondo::test {
namespace {

using namespace tools;

TEST_CASE("One wrong element anywhere in an output is counted as one", "[call]") {
  for (const Collective collective : kCollectives) {
    if (collective == Collective::barrier) continue;
    for (const int ranks : {1, 2, 4}) {
      const int root = ranks - 1;
      const Rendezvous meet = Rendezvous::inProcess(ranks);
      const std::size_t count = 37;
      const DataType type = DataType::int32;
      const Pattern pattern =
          reduces(collective) ? Pattern(type, ReduceOp::sum, ranks) : Pattern(type, ranks);
      std::vector<std::size_t> missed(static_cast<std::size_t>(ranks));
      std::vector<std::thread> threads;
      for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          Communicator comm = Communicator::create(meet.as(rank));
          std::vector<int> input(traits(collective).input.count(ranks, rank, root) * count);
          std::vector<int> output(traits(collective).output.count(ranks, rank, root) * count);
          pattern.fill(input.data(), rank, 0, input.size());
          const Call call{&comm, collective, input.data(),  output.data(),
                          count, type,       ReduceOp::sum, root};
          call.run();
          std::size_t& bad = missed[static_cast<std::size_t>(rank)];
          if (call.wrongElements(pattern) != 0) ++bad;
          for (int& element : output) {
            element ^= 1;
            if (call.wrongElements(pattern) != 1) ++bad;
            element ^= 1;
          }
          call.start().wait();
          call.runGroup(2);
          call.startGroup(2).wait();
          if (call.wrongElements(pattern) != 0) ++bad;
        });
      }
      for (std::thread& thread : threads) thread.join();
      INFO(name(collective) << ", ranks " << ranks);
      CHECK(missed == std::vector<std::size_t>(static_cast<std::size_t>(ranks), 0));
    }
  }
}

} // namespace
} // namespace rondo::test
