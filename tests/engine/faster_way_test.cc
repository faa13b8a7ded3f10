// How the faster of two ways is chosen by the times that they take.
#include "engine/faster_way.h"

#include <cstdint>

#include "support/test.h"

namespace rondo::test {
namespace {

/// Does `works` works that take `first` or `second` ticks. Returns how many of them took the first
/// way. Each 50th one is interrupted, and takes 100 times as long.
int timesFirst(engine::FasterWay& way, int works, std::uint64_t first, std::uint64_t second) {
  int times = 0;
  for (int i = 0; i < works; ++i) {
    way.choose();
    times += way.isFirst() ? 1 : 0;
    way.took((way.isFirst() ? first : second) * (i % 50 == 49 ? 100 : 1));
  }
  return times;
}

} // namespace

// Proves: the faster way does nearly all works, also if the other one becomes the faster one, and
// although works are interrupted at times.
TEST_CASE("the faster of two ways is used, also after it has changed", "[faster_way]") {
  engine::FasterWay way;
  way.choose();
  CHECK(way.isFirst()); // so that a program with one call uses the first way
  CHECK(timesFirst(way, 1000, 100, 120) > 900);
  CHECK(timesFirst(way, 3000, 350, 190) < 200);
  // To return takes longer: the way that was slower is only tried now and then.
  timesFirst(way, 3000, 100, 120);
  CHECK(timesFirst(way, 1000, 100, 120) > 900);
}

// Proves: the way that was slower is tried again, but seldom.
TEST_CASE("the slower of two ways is tried once in a while", "[faster_way]") {
  engine::FasterWay way;
  const int works = 100 * static_cast<int>(engine::FasterWay::kTryEvery);
  int slower = 0;
  for (int i = 0; i < works; ++i) {
    way.choose();
    slower += way.isFirst() ? 0 : 1;
    way.took(way.isFirst() ? 100 : 200);
  }
  CHECK(slower >= 99);
  CHECK(slower <= 102);
}

} // namespace rondo::test
