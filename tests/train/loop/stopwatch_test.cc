// Tests that the times of very long runs are kept in bounded memory, and that the medians stay.
#include "train/loop/stopwatch.h"

#include <algorithm>
#include <cmath>

#include "support/test.h"

namespace rondo::test {

using namespace training;

// Proves: where steps are left out, those that are kept are spread over the whole run.
TEST_CASE("sums, the last step and medians are those of all steps, however many there are") {
  for (const int steps : {1, 2, 99'999, 100'000, 1'000'001}) {
    INFO(steps);
    StepTimes times;
    for (int i = 1; i <= steps; ++i) times.add({.step = 1.0 * i, .forward = 2.0 * i});
    const double middle = (steps + 1) / 2.0;
    CHECK(times.count() == static_cast<std::size_t>(steps));
    CHECK(times.last().step == steps);
    CHECK(times.sum().step == steps * middle);
    CHECK(times.sum().forward == 2 * steps * middle);
    CHECK(std::abs(times.medians().step - middle) <= std::max(0.5, 1e-4 * steps));
    CHECK(times.medians().forward == 2 * times.medians().step);
    CHECK(times.medians().data == 0);
  }
  CHECK(StepTimes().last().step == 0);
  CHECK(StepTimes().medians().step == 0);
}

} // namespace rondo::test
