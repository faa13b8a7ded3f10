// Words, sizes and factors of the benchmark, compared on grids with rules written separately.
#include <string>
#include <vector>

#include "rondo/error.h"
#include "support/test.h"
#include "tests/kernels/reference.h"
#include "tools/bench/shape.h"
#include "tools/elements.h"
#include "tools/parse.h"

namespace rondo::test {
namespace {

using namespace tools;

TEST_CASE("Rank ranges: lists, ranges, limits, and what is refused", "[parse]") {
  CHECK(parseRanks("4", 64) == std::vector<int>{4});
  CHECK(parseRanks("1-4", 64) == std::vector<int>{1, 2, 3, 4});
  CHECK(parseRanks("8,1-3,2,64", 64) == std::vector<int>{8, 1, 2, 3, 64});
  CHECK(parseRanks("1-64", 64).size() == 64);
  for (const char* bad :
       {"", "0", "65", "1-65", "3-2", "1-", "-3", "1,", ",1", "a", "1;2", "1-2-3"}) {
    INFO(bad);
    CHECK_THROWS_AS(parseRanks(bad, 64), Error);
  }
}

TEST_CASE("Row sizes: whole elements of every rank, ascending, ends included", "[sizes]") {
  for (const Collective collective : kCollectives) {
    for (const DataType type : {DataType::int8, DataType::float16, DataType::float64}) {
      for (int ranks = 1; ranks <= 8; ++ranks) {
        for (const std::size_t min : {0, 1, 8, 100, 4096}) {
          BenchConfig config;
          config.collective = collective;
          config.min_bytes = min;
          config.max_bytes = 1 << 16;
          const auto counts = elementCounts(config, type, ranks);
          INFO(name(collective) << ", " << name(type) << ", ranks " << ranks << ", -b " << min);
          if (collective == Collective::barrier) {
            CHECK(counts == std::vector<std::size_t>{0});
            continue;
          }
          const std::size_t unit = sizeOf(type) * blocksOfSize(collective, ranks);
          for (std::size_t i = 1; i < counts.size(); ++i) CHECK(counts[i] > counts[i - 1]);
          CHECK((counts.front() == 0) == (min == 0));
          CHECK(counts.back() * unit <= config.max_bytes);
          CHECK(counts.back() * unit * 2 >= config.max_bytes / 2);
          if (min == 0) {
            REQUIRE(counts.size() > 3);
            CHECK(counts[1] == 1);
            CHECK(counts[2] == 2);
            CHECK(counts[3] == 4);
          }
        }
      }
    }
  }
}

TEST_CASE("Row sizes: step, factor, and a single size", "[sizes]") {
  BenchConfig config;
  config.min_bytes = 4;
  config.max_bytes = 40;
  config.step_bytes = 12;
  CHECK(elementCounts(config, DataType::float32, 2) == std::vector<std::size_t>{1, 4, 7, 10});
  config.step_bytes = 0;
  config.factor = 3;
  CHECK(elementCounts(config, DataType::float32, 2) == std::vector<std::size_t>{1, 3, 9});
  config.min_bytes = config.max_bytes = 16;
  CHECK(elementCounts(config, DataType::float32, 2) == std::vector<std::size_t>{4});
  config.collective =
      Collective::allgather; // 16 bytes are less than one element of each of 5 ranks
  CHECK(elementCounts(config, DataType::float32, 5) == std::vector<std::size_t>{1});
  config.min_bytes = config.max_bytes = 0;
  CHECK(elementCounts(config, DataType::float32, 5) == std::vector<std::size_t>{0});
}

TEST_CASE("busbw: bytes on the busiest link divided by the size, for every collective", "[sizes]") {
  for (const Collective collective : kCollectives) {
    CHECK_FALSE(busFactor(collective, 1).has_value());
    for (int n = 2; n <= 64; ++n) {
      const double share = static_cast<double>(n - 1) / n;
      double wanted = 1;
      if (collective == Collective::allreduce) wanted = 2 * share;
      if (blocksOfSize(collective, n) > 1) wanted = share;
      INFO(name(collective) << ", " << n);
      CHECK(busFactor(collective, n).value() == Approx(wanted));
    }
  }
}

TEST_CASE("Buffers: blocks of input and output agree over ranks", "[sizes]") {
  for (const Collective collective : kCollectives) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int root = 0; root < ranks; ++root) {
        std::size_t in = 0, out = 0, largest = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const std::size_t input = traits(collective).input.count(ranks, rank, root);
          const std::size_t output = traits(collective).output.count(ranks, rank, root);
          in += input;
          out += output;
          largest = std::max({largest, input, output});
        }
        const auto n = static_cast<std::size_t>(ranks);
        INFO(name(collective) << ", ranks " << ranks << ", root " << root);
        if (collective == Collective::barrier) {
          CHECK(in + out == 0);
          continue;
        }
        CHECK(largest == std::max<std::size_t>(blocksOfSize(collective, ranks), 1));
        switch (collective) {
          case Collective::reducescatter: CHECK((in == n * n && out == n)); break;
          case Collective::allgather: CHECK((in == n && out == n * n)); break;
          case Collective::alltoall: CHECK((in == n * n && out == n * n)); break;
          case Collective::broadcast: CHECK((in == 1 && out == n)); break;
          case Collective::reduce: CHECK((in == n && out == 1)); break;
          case Collective::exclusivescan: CHECK((in == n && out == n - 1)); break;
          default: CHECK((in == n && out == n)); break;
        }
      }
    }
  }
}

TEST_CASE("Every finite value of the narrow floats is encoded as itself; ties go to even",
          "[elements]") {
  for (const DataType type : kDataTypes) {
    if (!isSmallFloat(type)) continue;
    const Format format = smallFormat(type);
    const std::uint32_t sign = format.signBit(), finite = format.largestCode() + 1;
    std::size_t wrong = 0;
    for (std::uint32_t bits = 0; bits < finite; ++bits) {
      const double value = format.decode(bits);
      if (encodeFloat(type, value) != bits) ++wrong;
      if (encodeFloat(type, -value) != (bits | sign)) ++wrong;
      if (bits + 1 == finite) continue;
      const double middle = (value + format.decode(bits + 1)) / 2; // exact in double
      if (encodeFloat(type, middle) != bits + (bits & 1)) ++wrong;
    }
    INFO(name(type));
    CHECK(wrong == 0);
  }
}

} // namespace
} // namespace rondo::test
