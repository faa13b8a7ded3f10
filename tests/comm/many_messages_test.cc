// Proves: large calls that move data one way, of which both ends copy parts, give right results in
// every algorithm, whatever the ranks' speeds are. Some algorithms send messages of several steps
// over one channel.
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "plan/registry.h"
#include "support/grid.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr std::size_t kCount = (std::size_t{3} << 18) + 7; // 3 MiB of int32: 24 messages of 128 KiB

std::int32_t valueOf(int round, std::size_t i) {
  return static_cast<std::int32_t>((static_cast<std::size_t>(round) + 1) * 1'000'003 + i * 7);
}

} // namespace

TEST_CASE("large broadcasts are right in every algorithm, at any speed of the ranks") {
  const int rounds = kWholeGrid ? 30 : 6;
  for (const int size : {2, 3})
    for (const char* transport : {"inproc", "shm"})
      for (const plan::Algorithm* algorithm :
           plan::supporting({.collective = Collective::broadcast, .ranks = size})) {
        INFO(algorithm->name << " over " << transport << ", " << size << " ranks");
        auto ranks =
            Communicator::createAll(size, plainOptions(transport, std::string(algorithm->name)));
        const auto wrong = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
          std::vector<std::int32_t> data(kCount);
          for (int round = 0; round < rounds; ++round) {
            const int root = round % comm.size();
            for (std::size_t i = 0; i < kCount; ++i)
              data[i] = comm.rank() == root ? valueOf(round, i) : -1;
            if (round % 3 == 2 && comm.rank() == (round / 3) % comm.size())
              std::this_thread::sleep_for(std::chrono::microseconds(300));
            comm.broadcast(data.data(), data.data(), kCount, DataType::int32, root);
            for (std::size_t i = 0; i < kCount; ++i)
              if (data[i] != valueOf(round, i))
                return "round " + std::to_string(round) + ": wrong at " + std::to_string(i);
          }
          return {};
        }));
        CHECK(wrong == "");
      }
}

} // namespace rondo::test
