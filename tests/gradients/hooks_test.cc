// Tests gradient hooks: they send what they promise, and residuals keep everything else.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "gradients/codecs/half.h"
#include "gradients/model.h"
#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

GradientOptions with(std::shared_ptr<GradientHook> hook, std::size_t cap = 0) {
  GradientOptions options;
  options.bucket_bytes = {cap};
  options.hook = std::move(hook);
  return options;
}

void step(GradientReducer& reducer, const std::vector<float>& gradient) {
  reducer.begin();
  std::memcpy(reducer.gradient(0), gradient.data(), gradient.size() * sizeof(float));
  reducer.ready(0);
  reducer.wait();
}

/// Pseudo-random numbers that depend only on rank and step.
std::vector<float> noise(std::size_t count, int rank, int number) {
  std::vector<float> values(count);
  std::uint32_t state = 12345U + static_cast<std::uint32_t>(rank * 77 + number);
  for (float& one : values) {
    state = state * 1664525U + 1013904223U;
    one = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
  }
  return values;
}

} // namespace

TEST_CASE("16-bit floats: every value survives conversion, and others round to the nearest") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float a = gradients::fromFloat16(half), b = gradients::fromBfloat16(half);
    if (std::isnan(a)) CHECK(std::isnan(gradients::fromFloat16(gradients::toFloat16(a))));
    else if (gradients::toFloat16(a) != half) FAIL("float16 " << bits);
    if (std::isnan(b)) CHECK(std::isnan(gradients::fromBfloat16(gradients::toBfloat16(b))));
    else if (gradients::toBfloat16(b) != half) FAIL("bfloat16 " << bits);
  }
  // Between each finite value and the next one: just below the middle, the middle, just above it.
  for (std::uint16_t half = 0; half < 0x7bff; ++half) {
    const float low = gradients::fromFloat16(half), high = gradients::fromFloat16(half + 1);
    const float middle = low + (high - low) / 2;
    const auto even = static_cast<std::uint16_t>(half % 2 == 0 ? half : half + 1);
    if (gradients::toFloat16(middle) != even ||
        gradients::toFloat16(std::nextafter(middle, 0.0F)) != half ||
        gradients::toFloat16(std::nextafter(middle, high)) != half + 1 ||
        gradients::toFloat16(-middle) != (0x8000 | even))
      FAIL("float16 after " << half);
  }
  CHECK(gradients::toFloat16(65519.99F) == 0x7bff);
  CHECK(gradients::toFloat16(65520.0F) == 0x7c00);
  CHECK(gradients::toFloat16(std::numeric_limits<float>::infinity()) == 0x7c00);
  CHECK(gradients::toFloat16(-std::numeric_limits<float>::max()) == 0xfc00);
  CHECK(gradients::fromFloat16(0x3c00) == 1.0F);
  CHECK(gradients::fromFloat16(1) == 0x1p-24F);
  CHECK(gradients::fromFloat16(0x7bff) == 65504.0F);
  CHECK(gradients::toBfloat16(1.00390625F) == 0x3f80); // a tie rounds to even
  CHECK(gradients::toBfloat16(1.01171875F) == 0x3f82);
}

TEST_CASE("compressed gradients are the average of what each rank rounded") {
  for (DataType type : {DataType::float16, DataType::bfloat16})
    for (int size : {1, 2, 4}) {
      auto ranks = Communicator::createAll(size, plainOptions());
      const auto wrong = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
        Model model({{1001}}, true);
        GradientReducer reducer(comm, model.parameters(), with(compressGradients(type)));
        for (int s = 0; s < 3; ++s) {
          // Eighths up to 32 are exact in both types, and so are their averages over 4 ranks.
          std::vector<float> gradient(1001);
          for (std::size_t e = 0; e < gradient.size(); ++e)
            gradient[e] = static_cast<float>((e + static_cast<std::size_t>(comm.rank() + s)) % 32);
          step(reducer, gradient);
          const auto bad = differs(reducer, model, [&](std::size_t, std::size_t e) {
            float sum = 0;
            for (int r = 0; r < size; ++r)
              sum += static_cast<float>((e + static_cast<std::size_t>(r + s)) % 32);
            return sum / static_cast<float>(size);
          });
          if (!bad.empty()) return bad;
        }
        return {};
      }));
      INFO(name(type) << ", " << size << " ranks");
      REQUIRE(wrong == "");
    }
  CHECK(says(caught([] { compressGradients(DataType::int8); }), ErrorCode::invalid_argument,
             {"int8"}));
}

TEST_CASE("top-k: the largest are sent, and sent + kept = gradient + kept before, bit for bit") {
  constexpr std::size_t kCount = 4096; // a bucket without padding
  auto ranks = Communicator::createAll(3, plainOptions());
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            Model model({{kCount}}, true);
            GradientOptions options = with(topKGradients(0.01));
            options.average = false;
            GradientReducer reducer(comm, model.parameters(), options);
            constexpr std::size_t kSent = 41;
            std::vector<std::vector<float>> kept(3, std::vector<float>(kCount));
            for (int s = 0; s < 4; ++s) {
              step(reducer, noise(kCount, comm.rank(), s));
              // Computes the same without the hook, for all ranks.
              std::vector<float> want(kCount);
              for (int r = 0; r < 3; ++r) {
                auto& mine = kept[static_cast<std::size_t>(r)];
                const auto gradient = noise(kCount, r, s);
                for (std::size_t e = 0; e < kCount; ++e) mine[e] += gradient[e];
                std::vector<std::size_t> order(kCount);
                for (std::size_t e = 0; e < kCount; ++e) order[e] = e;
                std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
                  return std::fabs(mine[a]) > std::fabs(mine[b]);
                });
                for (std::size_t k = 0; k < kSent; ++k) {
                  want[order[k]] += mine[order[k]];
                  mine[order[k]] = 0;
                }
              }
              const auto bad =
                  differs(reducer, model, [&](std::size_t, std::size_t e) { return want[e]; });
              if (!bad.empty()) return "step " + std::to_string(s) + ": " + bad;
            }
            return {};
          })) == "");
  for (double density : {0.0, 1.5, -1.0, std::nan("")})
    CHECK(says(caught([&] { topKGradients(density); }), ErrorCode::invalid_argument, {"density"}));
}

TEST_CASE("top-k: infinities count as larger than all numbers, NaN as larger still") {
  constexpr std::size_t kCount = 4096, kSent = 41;
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  // More NaN than can be sent; fewer NaN and infinities for the rest; both, and room for numbers.
  for (const auto& [nans, infinities] : {std::pair{60, 5}, std::pair{30, 60}, std::pair{9, 8}}) {
    std::vector<float> gradient = noise(kCount, 0, 0), want(kCount);
    for (int i = 0; i < nans; ++i) gradient[kCount - 1 - 50 * i] = i % 2 == 0 ? nan : -nan;
    for (int i = 0; i < infinities; ++i) gradient[10 + 20 * i] = i % 2 == 0 ? infinity : -infinity;
    std::vector<std::size_t> order(kCount);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const auto key = [&](std::size_t i) {
        return std::pair(std::isnan(gradient[i]),
                         std::isnan(gradient[i]) ? 0 : std::fabs(gradient[i]));
      };
      return key(a) > key(b);
    });
    for (std::size_t k = 0; k < kSent; ++k) want[order[k]] = gradient[order[k]];
    auto ranks = Communicator::createAll(1, plainOptions());
    Model model({{kCount}}, true);
    GradientReducer reducer(ranks.front(), model.parameters(), with(topKGradients(0.01)));
    step(reducer, gradient);
    const auto* got = static_cast<const float*>(reducer.gradient(0));
    INFO(nans << " NaN, " << infinities << " infinities");
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < kCount; ++i)
      wrong += std::isnan(want[i]) ? !std::isnan(got[i]) : got[i] != want[i];
    CHECK(wrong == 0);
  }
}

TEST_CASE(
    "PowerSGD: averages exactly first, and then matrices up to its rank, the same on all ranks") {
  constexpr std::size_t kRows = 24, kColumns = 40;
  auto ranks = Communicator::createAll(2, plainOptions());
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            Model model({{kRows, kColumns}}, true);
            GradientReducer reducer(comm, model.parameters(), with(powerSgdGradients(2)));
            for (int s = 0; s < 4; ++s) {
              // Each rank's matrix has rank 1, so the average has rank 2.
              std::vector<float> gradient(kRows * kColumns), average(gradient.size());
              for (int r = 0; r < 2; ++r) {
                const auto u = noise(kRows, r, s), v = noise(kColumns, r + 9, s);
                for (std::size_t i = 0; i < gradient.size(); ++i) {
                  const float product = u[i / kColumns] * v[i % kColumns];
                  average[i] += product / 2;
                  if (r == comm.rank()) gradient[i] = product;
                }
              }
              step(reducer, gradient);
              const auto* got = static_cast<const float*>(reducer.gradient(0));
              for (std::size_t i = 0; i < average.size(); ++i)
                if (std::fabs(got[i] - average[i]) > 1e-4F * static_cast<float>(s + 1))
                  return "step " + std::to_string(s) + ", element " + std::to_string(i) + ": " +
                         std::to_string(got[i]) + ", not " + std::to_string(average[i]);
              std::vector<float> theirs(average.size());
              comm.broadcast(got, theirs.data(), theirs.size(), DataType::float32, 0);
              if (std::memcmp(got, theirs.data(), theirs.size() * sizeof(float)) != 0)
                return "ranks differ";
            }
            return {};
          })) == "");
}

TEST_CASE("PowerSGD: the residual of a step is sent in later steps") {
  constexpr std::size_t kSide = 32;
  auto ranks = Communicator::createAll(2, plainOptions());
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            // With the same full-rank gradient in every step, the mean of the applied gradients
            // must converge to it.
            Model model({{kSide, kSide}, {kSide}}, true);
            GradientReducer reducer(comm, model.parameters(),
                                    with(powerSgdGradients(1, 0), 1 << 20));
            const auto gradient = noise(kSide * kSide, 3, 0);
            std::vector<double> applied(gradient.size());
            constexpr int kSteps = 400;
            for (int s = 0; s < kSteps; ++s) {
              reducer.begin();
              std::memcpy(reducer.gradient(0), gradient.data(), gradient.size() * sizeof(float));
              auto* vector = static_cast<float*>(reducer.gradient(1));
              std::fill_n(vector, kSide, static_cast<float>(comm.rank()));
              reducer.ready(1);
              reducer.ready(0);
              reducer.wait();
              const auto* got = static_cast<const float*>(reducer.gradient(0));
              for (std::size_t i = 0; i < applied.size(); ++i) applied[i] += got[i];
              if (vector = static_cast<float*>(reducer.gradient(1)); vector[kSide - 1] != 0.5F)
                return "a vector is not averaged";
            }
            double off = 0, length = 0;
            for (std::size_t i = 0; i < applied.size(); ++i) {
              off += std::pow(applied[i] / kSteps - gradient[i], 2);
              length += std::pow(gradient[i], 2);
            }
            const double error = std::sqrt(off / length);
            return error < 0.15 ? "" : "off by " + std::to_string(error);
          })) == "");
  CHECK(says(caught([] { powerSgdGradients(0); }), ErrorCode::invalid_argument, {"rank 0"}));
}

TEST_CASE("PowerSGD: applied + residuals of all ranks = gradients + residuals before") {
  constexpr std::size_t kCount = 24 * 40;
  struct Row {
    const char* what;
    bool average, uneven;
  };
  for (const Row& row : {Row{"sums", false, false}, Row{"averages", true, false},
                         Row{"uneven sums", false, true}, Row{"uneven averages", true, true}})
    for (int size : {2, 3, 4}) {
      auto ranks = Communicator::createAll(size, plainOptions());
      const auto wrong = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
        const std::shared_ptr<GradientHook> hook = powerSgdGradients(2, 0);
        GradientOptions options = with(hook);
        options.average = row.average;
        options.uneven_inputs = row.uneven;
        Model model({{24, 40}}, true);
        GradientReducer reducer(comm, model.parameters(), options);
        const auto kept = [&] { return hook->state(reducer.buckets())[1].values; };
        constexpr int kSteps = 12;
        for (int s = 0; s < kSteps; ++s) {
          // All ranks except rank 0 run out of steps, one after the other.
          const auto has = [&](int r) { return !row.uneven || r == 0 || s < 3 * r; };
          int live = 0;
          for (int r = 0; r < size; ++r) live += has(r) ? 1 : 0;
          const double factor = row.average ? 1.0 / live : 1.0;
          std::vector<double> owed(kept().begin(), kept().end());
          if (has(comm.rank())) {
            const auto gradient = noise(kCount, comm.rank(), s);
            for (std::size_t i = 0; i < kCount; ++i) owed[i] += gradient[i];
            step(reducer, gradient);
          } else if (!reducer.shadow()) {
            return "no step to shadow";
          }
          for (std::size_t i = 0; i < kCount; ++i) owed[i] -= kept()[i];
          comm.allReduce(owed.data(), owed.data(), kCount, DataType::float64, ReduceOp::sum);
          const auto* got = static_cast<const float*>(reducer.gradient(0));
          for (std::size_t i = 0; i < kCount; ++i)
            if (!(std::fabs(got[i] / factor - owed[i]) < 1e-4))
              return "step " + std::to_string(s) + ", element " + std::to_string(i) + ": applied " +
                     std::to_string(got[i] / factor) + ", given up " + std::to_string(owed[i]);
        }
        return {};
      }));
      INFO(row.what << ", " << size << " ranks");
      REQUIRE(wrong == "");
    }
}

TEST_CASE("PowerSGD: it recovers from zero gradients and from gradients of lower rank") {
  constexpr std::size_t kRows = 24, kColumns = 40;
  for (bool average : {true, false}) {
    auto ranks = Communicator::createAll(3, plainOptions());
    const auto wrong = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
      Model model({{kRows, kColumns}}, true);
      GradientOptions options = with(powerSgdGradients(4, 0));
      options.average = average;
      GradientReducer reducer(comm, model.parameters(), options);
      // The rank of the gradient in each step. All ranks have the same matrix, which the hook can
      // represent exactly.
      const int directions[] = {0, 0, 4, 1, 1, 1, 1, 1, 1, 1, 1, 4, 2, 1};
      for (std::size_t s = 0; s < std::size(directions); ++s) {
        std::vector<float> gradient(kRows * kColumns);
        for (int k = 0; k < directions[s]; ++k) {
          const auto u = noise(kRows, k, static_cast<int>(s)), v = noise(kColumns, k + 9, 0);
          for (std::size_t i = 0; i < gradient.size(); ++i)
            gradient[i] += u[i / kColumns] * v[i % kColumns];
        }
        step(reducer, gradient);
        const auto* got = static_cast<const float*>(reducer.gradient(0));
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          const float want = average ? gradient[i] : 3 * gradient[i];
          if (!(std::fabs(got[i] - want) < 1e-3F))
            return "step " + std::to_string(s) + ", element " + std::to_string(i) + ": " +
                   std::to_string(got[i]) + ", not " + std::to_string(want);
        }
      }
      return {};
    }));
    INFO((average ? "averages" : "sums"));
    REQUIRE(wrong == "");
  }
}

TEST_CASE("statistics and timeline count the bytes that a hook sends") {
  constexpr std::size_t kRows = 32, kColumns = 64, kWhole = kRows * kColumns * 4;
  struct Row {
    std::shared_ptr<GradientHook> hook;
    std::size_t first, second; ///< bytes of the two steps
  };
  for (const Row& row :
       {Row{nullptr, kWhole, kWhole},
        Row{compressGradients(DataType::float16), kWhole / 2, kWhole / 2},
        Row{topKGradients(0.25), kWhole / 2, kWhole / 2}, // sends an index with each value
        Row{powerSgdGradients(2, 1), kWhole, 2 * (kRows + kColumns) * 4}}) {
    auto ranks = Communicator::createAll(1, plainOptions());
    Model model({{kRows, kColumns}}, true);
    GradientReducer reducer(ranks.front(), model.parameters(), with(row.hook));
    for (std::size_t want : {row.first, row.second}) {
      const std::uint64_t before = reducer.statistics().bytes;
      step(reducer, noise(kRows * kColumns, 0, 0));
      INFO((row.hook ? row.hook->name() : "no hook"));
      CHECK(reducer.statistics().bytes - before == want);
      CHECK(reducer.timeline().at(0).bytes == want);
    }
  }
}

TEST_CASE("a hook with another one's state continues as that one would") {
  constexpr int kRanks = 3, kBefore = 3, kAfter = 3;
  const std::vector<std::function<std::unique_ptr<GradientHook>()>> hooks = {
      [] { return topKGradients(0.1); }, [] { return powerSgdGradients(2, 1); },
      [] { return powerSgdGradients(1, 5); }};
  for (const auto& make : hooks) {
    auto ranks = Communicator::createAll(kRanks, plainOptions());
    const auto wrong = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
      std::vector<float> value(600);
      const auto reducer = [&](const std::shared_ptr<GradientHook>& hook) {
        GradientOptions options = with(hook);
        options.follow_observed_order = false;
        return GradientReducer(comm, {{.name = "w", .value = value.data(), .shape = {30, 20}}},
                               options);
      };
      const std::shared_ptr<GradientHook> first = make(), second = make();
      GradientReducer one = reducer(first), other = reducer(second);
      for (int s = 0; s < kBefore; ++s) step(one, noise(600, comm.rank(), s));
      const auto from = first->state(one.buckets()), to = second->state(other.buckets());
      if (from.empty() || from.size() != to.size()) return "states of different lengths";
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (from[i].name != to[i].name || from[i].values.size() != to[i].values.size())
          return "not the same array: " + from[i].name;
        std::copy(from[i].values.begin(), from[i].values.end(), to[i].values.begin());
      }
      for (int s = kBefore; s < kBefore + kAfter; ++s) {
        step(one, noise(600, comm.rank(), s));
        step(other, noise(600, comm.rank(), s));
        if (std::memcmp(one.gradient(0), other.gradient(0), 600 * sizeof(float)) != 0)
          return "step " + std::to_string(s) + " differs";
      }
      return {};
    }));
    REQUIRE(wrong == "");
  }
}

} // namespace rondo::test
