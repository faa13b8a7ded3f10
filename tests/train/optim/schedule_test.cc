// Compares learning rates with formulas from the mathematics library, and tests the limit of the
// norm.
#include "train/optim/schedule.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "rondo/error.h"
#include "support/test.h"
#include "train/optim/norm.h"
#include "weights.h"

namespace rondo::test {

using training::rateAt;
using training::Schedule;

TEST_CASE("a warm-up rises in even steps to the rate, and the schedule continues from there") {
  for (const auto kind : {Schedule::Kind::constant, Schedule::Kind::step, Schedule::Kind::cosine}) {
    const Schedule schedule{.kind = kind,
                            .rate = 0.8,
                            .warmup_rate = 0.1,
                            .warmup_steps = 7,
                            .step_length = 50,
                            .total_steps = 100};
    for (std::uint64_t step = 0; step < 7; ++step)
      REQUIRE(close(rateAt(schedule, step), 0.1 + 0.1 * static_cast<double>(step + 1), 1e-15));
    REQUIRE(rateAt(schedule, 6) == 0.8);
    REQUIRE(rateAt(schedule, 7) == 0.8);
  }
}

TEST_CASE("constant stays, step falls by its factor, cosine falls along half a wave") {
  const Schedule constant{.rate = 0.3};
  REQUIRE(rateAt(constant, 1'000'000) == 0.3);

  const Schedule stairs{.kind = Schedule::Kind::step, .rate = 0.3, .step_length = 30};
  for (std::uint64_t step = 0; step < 200; ++step)
    REQUIRE(close(rateAt(stairs, step), 0.3 * std::pow(0.1, step / 30), 1e-14));

  for (const std::uint64_t warmup : {0, 5}) {
    const Schedule wave{.kind = Schedule::Kind::cosine,
                        .rate = 0.3,
                        .warmup_steps = warmup,
                        .total_steps = 1000,
                        .least_rate = 0.01};
    for (std::uint64_t step = warmup; step < 1000; ++step) {
      const double part = static_cast<double>(step - warmup) / static_cast<double>(1000 - warmup);
      REQUIRE(close(rateAt(wave, step), 0.01 + 0.29 * (1 + std::cos(std::numbers::pi * part)) / 2,
                    1e-14));
    }
    REQUIRE(rateAt(wave, 1000) == 0.01);
    REQUIRE(rateAt(wave, 5000) == 0.01);
  }
  // If the warm-up is as long as the training, no step is left for the wave: no division by zero.
  const Schedule short_run{
      .kind = Schedule::Kind::cosine, .rate = 1, .warmup_steps = 10, .total_steps = 10};
  REQUIRE(rateAt(short_run, 10) == 0);
}

TEST_CASE("scaling rules follow the batch or its square root") {
  const auto scaled = [](const char* rule, std::uint64_t batch) {
    return training::scalingRule(rule).scaled(0.1, batch, 256);
  };
  REQUIRE(close(scaled("linear", 8192), 3.2, 1e-15));
  REQUIRE(close(scaled("linear", 64), 0.025, 1e-15));
  REQUIRE(close(scaled("sqrt", 4096), 0.4, 1e-15));
  REQUIRE(close(scaled("sqrt", 64), 0.05, 1e-15));
}

TEST_CASE("an unknown schedule is refused with a list of the known ones") {
  REQUIRE(training::scheduleKind("cosine") == Schedule::Kind::cosine);
  REQUIRE_THROWS_WITH(training::scheduleKind("linear"),
                      "train: unknown schedule \"linear\"; valid: constant, step, cosine");
}

TEST_CASE(
    "clipping limits the norm of all gradients together, and changes nothing below the limit") {
  Weights weights;
  weights.drawGradients();
  double sum = 0;
  for (const training::Weight* weight : weights.all())
    for (std::size_t i = 0; i < weight->size(); ++i)
      sum += static_cast<double>(weight->gradient[i]) * weight->gradient[i];
  const float scale = 0.25F;
  const double norm = 0.25 * std::sqrt(sum);

  const training::Clipped free = training::clip(weights.all(), scale, norm * 1.01);
  REQUIRE(close(free.norm, norm, 1e-12));
  REQUIRE(free.scale == scale);

  const training::Clipped held = training::clip(weights.all(), scale, norm / 3);
  REQUIRE(held.norm == free.norm);
  REQUIRE(static_cast<double>(held.scale) * std::sqrt(sum) <= norm / 3);
  REQUIRE(close(held.scale, scale / 3, 1e-5));

  weights.all()[1]->gradient[2] = std::numeric_limits<float>::infinity();
  REQUIRE(!std::isfinite(training::clip(weights.all(), scale, 1).norm));
}

} // namespace rondo::test
