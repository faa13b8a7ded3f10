// Tests which samples steps take: each as often as promised, and only the arguments decide.
#include "train/data/sampler.h"

#include <algorithm>
#include <set>

#include "support/test.h"

namespace rondo::test {

using namespace training;

TEST_CASE("the order of samples contains each once and depends on seed and epoch only") {
  std::set<std::vector<std::uint32_t>> orders;
  for (std::uint32_t count : {1, 2, 3, 100, 1000})
    for (std::uint64_t seed : {0, 1, 2, 3})
      for (int epoch : {1, 2, 3}) {
        const auto order = sampleOrder(count, seed, epoch);
        REQUIRE(order == sampleOrder(count, seed, epoch));
        auto sorted = order;
        std::sort(sorted.begin(), sorted.end());
        REQUIRE(sorted.size() == count);
        for (std::uint32_t i = 0; i < count; ++i) REQUIRE(sorted[i] == i);
        if (count >= 100) orders.insert(order);
      }
  REQUIRE(orders.size() == 2 * 4 * 3);
}

TEST_CASE("shares cover everything once and differ by one at most") {
  for (std::size_t total : {0, 1, 2, 7, 40, 128, 10'000})
    for (std::size_t parts = 1; parts <= 17; ++parts) {
      std::size_t next = 0;
      for (std::size_t part = 0; part < parts; ++part) {
        const Range range = share(total, part, parts);
        INFO(total << " in " << parts << ", part " << part);
        REQUIRE(range.begin == next);
        REQUIRE((range.size() == total / parts || range.size() == total / parts + 1));
        next = range.end;
      }
      REQUIRE(next == total);
    }
}

TEST_CASE("with drop an epoch's steps take different samples, as many as fill whole steps") {
  Sampler sampler(103, 10, 5, Remainder::drop);
  REQUIRE(sampler.steps() == 10);
  const auto order = sampleOrder(103, 5, 2);
  for (std::size_t step = 0; step < 10; ++step) {
    const auto samples = sampler.samples(2, step);
    REQUIRE(samples.size() == 10);
    REQUIRE(std::equal(samples.begin(), samples.end(), order.begin() + 10 * step));
  }
  REQUIRE(Sampler(9, 10, 5, Remainder::drop).steps() == 0);
}

TEST_CASE("with pad an epoch takes every sample, and the first ones again to fill the last step") {
  for (std::size_t count : {1, 3, 99, 100, 101, 103}) {
    Sampler sampler(count, 10, 5, Remainder::pad);
    REQUIRE(sampler.steps() == (count + 9) / 10);
    const auto order = sampleOrder(static_cast<std::uint32_t>(count), 5, 1);
    std::size_t at = 0;
    for (std::size_t step = 0; step < sampler.steps(); ++step) {
      const auto samples = sampler.samples(1, step);
      REQUIRE(samples.size() == 10);
      for (std::uint32_t sample : samples) REQUIRE(sample == order[at++ % count]);
    }
    REQUIRE(at >= count);
  }
}

TEST_CASE("with uneven an epoch takes every sample once, and the last step takes the rest") {
  for (std::size_t count : {1, 3, 99, 100, 101, 103}) {
    Sampler sampler(count, 10, 5, Remainder::uneven);
    REQUIRE(sampler.steps() == (count + 9) / 10);
    const auto order = sampleOrder(static_cast<std::uint32_t>(count), 5, 1);
    std::size_t at = 0;
    for (std::size_t step = 0; step < sampler.steps(); ++step) {
      const auto samples = sampler.samples(1, step);
      REQUIRE(samples.size() == std::min<std::size_t>(10, count - at));
      for (std::uint32_t sample : samples) REQUIRE(sample == order[at++]);
    }
    REQUIRE(at == count);
  }
}

TEST_CASE("a sampler that begins in the middle gives the same as one from the beginning") {
  Sampler from_start(50, 7, 1, Remainder::pad), from_middle(50, 7, 1, Remainder::pad);
  for (int epoch = 1; epoch <= 3; ++epoch)
    for (std::size_t step = 0; step < from_start.steps(); ++step) {
      const auto expected = from_start.samples(epoch, step);
      if (epoch < 2 || (epoch == 2 && step < 4)) continue;
      const auto found = from_middle.samples(epoch, step);
      REQUIRE(std::equal(expected.begin(), expected.end(), found.begin(), found.end()));
    }
}

} // namespace rondo::test
