// Tests aborts at random times, many times: ABORTS=10000 build/tests/test_comm "aborts at random*".
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

int runs() {
  const char* text = std::getenv("ABORTS");
  return text != nullptr ? std::atoi(text) : 40;
}

/// Calls of all kinds until one throws. All ranks make the same ones.
void callForEver(Communicator& comm, std::mt19937 random) {
  std::vector<std::int64_t> data(20'000, 1),
      all(data.size() * static_cast<std::size_t>(comm.size()));
  for (;;) {
    const std::size_t count = random() % 4 == 0 ? data.size() : random() % 200;
    switch (random() % 8) {
      case 0: comm.allGather(data.data(), all.data(), count, DataType::int64); break;
      case 1: comm.barrier(); break;
      case 2: {
        const int next = (comm.rank() + 1) % comm.size();
        const int last = (comm.rank() + comm.size() - 1) % comm.size();
        Group group;
        comm.send(data.data(), count, DataType::int64, next);
        comm.recv(all.data(), count, DataType::int64, last);
        group.end();
        break;
      }
      case 3: {
        auto work =
            comm.allReduceAsync(data.data(), all.data(), count, DataType::int64, ReduceOp::max);
        comm.broadcast(data.data(), data.data(), count, DataType::int64, 0);
        work.wait();
        break;
      }
      case 4: {
        auto half = comm.split(comm.rank() % 2, 0);
        half->allReduce(data.data(), data.data(), count, DataType::int64, ReduceOp::max);
        break;
      }
      case 5: comm.exchange({}); break;
      default: comm.allReduce(data.data(), data.data(), count, DataType::int64, ReduceOp::max);
    }
  }
}

} // namespace

// Proves: whatever a rank does at the moment of an abort, its call ends with the abort's error, and
// its communicator can be destroyed. A second rank may abort at the same time.
TEST_CASE("aborts at random times: every call returns") {
  const char* const transports[] = {"inproc", "shm", "tcp"};
  for (int run = 0; run < runs(); ++run) {
    std::mt19937 random(static_cast<unsigned>(run));
    const char* transport = transports[random() % 3];
    const int size = 2 + static_cast<int>(random() % 4);
    INFO("run " << run << ", " << transport << ", " << size << " ranks");
    auto ranks = Communicator::createAll(size, plainOptions(transport));
    std::vector<std::jthread> aborters;
    for (int i = random() % 4 == 0 ? 2 : 1; i > 0; --i)
      aborters.emplace_back([&comm = ranks[random() % ranks.size()],
                             delay = std::chrono::microseconds(random() % 3000)] {
        std::this_thread::sleep_for(delay);
        comm.abort("of the test");
      });
    std::vector<Caught> errors(ranks.size());
    onRanks(ranks, [&](Communicator& comm) -> std::string {
      errors[static_cast<std::size_t>(comm.rank())] = caught([&] { callForEver(comm, random); });
      return {};
    });
    aborters.clear();
    for (const Caught& error : errors) REQUIRE(says(error, ErrorCode::aborted, {"of the test"}));
  }
}

} // namespace rondo::test
