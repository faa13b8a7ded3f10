// Tests the results of a reducer's steps: sums over ranks, accumulation, overlap, order of buckets.
#include <barrier>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "gradients/model.h"
#include "gradients/timeline.h"
#include "plan/registry.h"
#include "support/forked_child.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// Makes one step: every parameter's gradient, in reverse order, then wait().
void step(GradientReducer& reducer, const Model& model, int rank, int number) {
  reducer.begin();
  for (std::size_t i = model.shapes.size(); i-- > 0;) {
    backward(reducer, i, model.values[i].size(), rank, number);
    reducer.ready(i);
  }
  reducer.wait();
}

float sumOf(int ranks, int number, std::size_t parameter, std::size_t element) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += gradientOf(r, number, parameter, element);
  return sum;
}

GradientOptions summing(std::size_t cap) {
  GradientOptions options;
  options.average = false;
  options.bucket_bytes = {cap};
  return options;
}

} // namespace

TEST_CASE("every step gives the exact sum over ranks: transports, ranks, caps, copies, overlap") {
  for (const char* transport : {"inproc", "shm", "tcp"})
    for (int size : kRankCounts)
      for (std::size_t cap : {std::size_t{0}, std::size_t{2000}, std::size_t{1} << 20})
        for (bool views : {true, false})
          for (bool overlap : {true, false}) {
            auto ranks = Communicator::createAll(size, plainOptions(transport));
            const auto wrong =
                firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
                  Model model(someShapes(), views);
                  GradientOptions options = summing(cap);
                  options.overlap = overlap;
                  GradientReducer reducer(comm, model.parameters(), options);
                  for (int s = 0; s < 3; ++s) {
                    step(reducer, model, comm.rank(), s);
                    const auto bad = differs(reducer, model, [&](std::size_t i, std::size_t e) {
                      return sumOf(size, s, i, e);
                    });
                    if (!bad.empty()) return "step " + std::to_string(s) + ": " + bad;
                  }
                  return {};
                }));
            INFO(transport << ", " << size << " ranks, cap " << cap << ", views " << views
                           << ", overlap " << overlap);
            REQUIRE(wrong == "");
            if (!kWholeGrid && overlap) break;
          }
}

TEST_CASE("every algorithm gives the exact sum, for all rank counts and bucket sizes") {
  for (const plan::Algorithm* algorithm : plan::algorithms())
    for (int size : kRankCounts) {
      if (!algorithm->supports({Collective::allreduce, size, 0, 0})) continue;
      for (std::size_t cap : {std::size_t{0}, std::size_t{2000}, std::size_t{1} << 20}) {
        auto ranks = Communicator::createAll(
            size, plainOptions("inproc", "allreduce:" + std::string(algorithm->name)));
        const auto wrong = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
          Model model(someShapes(), true);
          GradientReducer reducer(comm, model.parameters(), summing(cap));
          step(reducer, model, comm.rank(), 0);
          return differs(reducer, model,
                         [&](std::size_t i, std::size_t e) { return sumOf(size, 0, i, e); });
        }));
        INFO(algorithm->name << ", " << size << " ranks, cap " << cap);
        REQUIRE(wrong == "");
      }
    }
}

TEST_CASE("averages are exact, and parameters begin with rank 0's values") {
  auto ranks = Communicator::createAll(4, plainOptions());
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            Model model(someShapes(), true);
            for (auto& values : model.values)
              std::fill(values.begin(), values.end(), static_cast<float>(comm.rank() + 5));
            GradientReducer reducer(comm, model.parameters());
            for (const auto& values : model.values)
              for (float value : values)
                if (value != 5) return "a value is " + std::to_string(value);
            step(reducer, model, comm.rank(), 0);
            return differs(reducer, model,
                           [](std::size_t i, std::size_t e) { return sumOf(4, 0, i, e) / 4; });
          })) == "");
}

TEST_CASE("in deterministic mode caps, overlap and copies change no bit") {
  Options plain = plainOptions();
  plain.deterministic = true;
  std::vector<float> reference;
  for (std::size_t cap : {std::size_t{1} << 20, std::size_t{0}, std::size_t{3000}})
    for (bool views : {true, false})
      for (bool overlap : {true, false}) {
        auto ranks = Communicator::createAll(3, plain);
        std::vector<float> seen;
        REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
                  Model model(someShapes(), views);
                  GradientOptions options;
                  options.bucket_bytes = {cap};
                  options.overlap = overlap;
                  GradientReducer reducer(comm, model.parameters(), options);
                  std::vector<float> all;
                  for (int s = 0; s < 2; ++s) {
                    reducer.begin();
                    for (std::size_t i = model.shapes.size(); i-- > 0;) {
                      auto* g = static_cast<float*>(reducer.gradient(i));
                      for (std::size_t e = 0; e < model.values[i].size(); ++e)
                        g[e] = 0.1F / static_cast<float>(1 + e + i) *
                               static_cast<float>(1 + comm.rank() * comm.rank());
                      reducer.ready(i);
                    }
                    reducer.wait();
                  }
                  for (std::size_t i = 0; i < model.shapes.size(); ++i) {
                    const auto* g = static_cast<const float*>(reducer.gradient(i));
                    all.insert(all.end(), g, g + model.values[i].size());
                  }
                  if (comm.rank() == 0) seen = all;
                  return {};
                })) == "");
        if (reference.empty()) reference = seen;
        REQUIRE(std::memcmp(reference.data(), seen.data(), seen.size() * sizeof(float)) == 0);
      }
}

TEST_CASE("steps without synchronisation accumulate for the next one with it") {
  for (bool views : {true, false}) {
    auto ranks = Communicator::createAll(2, plainOptions());
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              Model model(someShapes(), views);
              GradientReducer reducer(comm, model.parameters(), summing(500));
              for (int round = 0; round < 2; ++round) {
                for (int s = 0; s < 3; ++s) {
                  reducer.begin(s == 2);
                  for (std::size_t i = model.shapes.size(); i-- > 0;) {
                    backward(reducer, i, model.values[i].size(), comm.rank(), s, s > 0);
                    reducer.ready(i);
                  }
                  reducer.wait();
                }
                const auto bad = differs(reducer, model, [](std::size_t i, std::size_t e) {
                  return sumOf(2, 0, i, e) + sumOf(2, 1, i, e) + sumOf(2, 2, i, e);
                });
                if (!bad.empty()) return bad;
              }
              if (reducer.statistics().steps != 2) return "steps without synchronisation count";
              return {};
            })) == "");
  }
}

TEST_CASE("buckets are formed again once, in the order of rank 0's gradients") {
  auto ranks = Communicator::createAll(3, plainOptions());
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            Model model({{10}, {20}, {30}, {40}}, true);
            GradientReducer reducer(comm, model.parameters(), summing(0));
            const auto order = [&reducer] {
              std::string text;
              for (const auto& bucket : reducer.buckets())
                for (std::size_t i : bucket.parameters) text += std::to_string(i);
              return text;
            };
            if (order() != "3210") return "at first " + order();
            // Every rank has an order of its own.
            for (int s = 0; s < 3; ++s) {
              reducer.begin();
              if (s > 0 && order() != "2031") return "then " + order();
              for (std::size_t k : {2U, 0U, 3U, 1U}) {
                const std::size_t i = (k + static_cast<std::size_t>(comm.rank())) % 4;
                backward(reducer, i, model.values[i].size(), comm.rank(), s);
                reducer.ready(i);
              }
              reducer.wait();
              const auto bad = differs(
                  reducer, model, [s](std::size_t i, std::size_t e) { return sumOf(3, s, i, e); });
              if (!bad.empty()) return bad;
            }
            return {};
          })) == "");
}

TEST_CASE("buckets start in order, as soon as they and all before them are full") {
  auto ranks = Communicator::createAll(2, plainOptions());
  struct Noting final : GradientHook {
    std::string started;
    std::string name() const override { return "noting"; }
    bool supports(DataType) const override { return true; }
    Work start(Communicator& comm, GradientBucket& bucket) override {
      started += std::to_string(bucket.index);
      return comm.allReduceAsync(bucket.data, bucket.data, bucket.count, bucket.type,
                                 ReduceOp::preMulSum(bucket.factor));
    }
    void finish(Communicator&, GradientBucket&) override {}
  };
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            for (bool overlap : {true, false}) {
              Model model({{10}, {20}, {30}}, true);
              auto hook = std::make_shared<Noting>();
              GradientOptions options = summing(0);
              options.overlap = overlap;
              options.hook = hook;
              GradientReducer reducer(comm, model.parameters(), options);
              reducer.begin();
              reducer.ready(0);
              reducer.ready(1);
              if (hook->started != "") return "started " + hook->started + " before its turn";
              reducer.ready(2);
              if (hook->started != (overlap ? "012" : ""))
                return "with all ready: " + hook->started;
              reducer.wait();
              if (hook->started != "012") return "at the end: " + hook->started;
            }
            return {};
          })) == "");
}

TEST_CASE("buckets go round-robin over several communicators, with the same sums") {
  constexpr int kRanks = 3;
  auto first = Communicator::createAll(kRanks, plainOptions("shm"));
  auto second = Communicator::createAll(kRanks, plainOptions("tcp"));
  REQUIRE(firstComplaint(onRanks(first, [&](Communicator& comm) -> std::string {
            Communicator& other = second[static_cast<std::size_t>(comm.rank())];
            Model model(someShapes(), true);
            GradientReducer reducer({&comm, &other}, model.parameters(), summing(0));
            for (int s = 0; s < 3; ++s) {
              step(reducer, model, comm.rank(), s);
              const auto bad = differs(reducer, model, [s](std::size_t i, std::size_t e) {
                return sumOf(kRanks, s, i, e);
              });
              if (!bad.empty()) return bad;
            }
            // Both communicators have channels, so both have been used.
            if (other.memory().channels == 0) return "the second communicator was not used";
            return {};
          })) == "");
}

TEST_CASE("statistics: exposed time is inside wait(), overlap before it") {
  // No bucket of rank 0 can complete before rank 1 begins, and rank 1 waits until rank 0 has slept.
  constexpr std::chrono::milliseconds kSleep{5};
  for (bool overlap : {true, false}) {
    auto ranks = Communicator::createAll(2, plainOptions());
    std::barrier slept(2);
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              Model model(someShapes(), true);
              GradientOptions options = summing(0);
              options.overlap = overlap;
              GradientReducer reducer(comm, model.parameters(), options);
              for (int s = 0; s < 4; ++s) {
                if (comm.rank() == 1) slept.arrive_and_wait();
                reducer.begin();
                for (std::size_t i = model.shapes.size(); i-- > 0;) reducer.ready(i);
                if (comm.rank() == 0) {
                  std::this_thread::sleep_for(kSleep);
                  slept.arrive_and_wait();
                }
                reducer.wait();
              }
              const GradientStatistics seen = reducer.statistics();
              const double asleep = comm.rank() == 0 ? 4 * gradients::seconds(kSleep) : 0;
              if (seen.steps != 4) return "steps";
              if (seen.bytes == 0) return "bytes";
              if (!(seen.overlap <= seen.communication)) return "overlap";
              if (overlap ? !(seen.overlap > asleep) : seen.overlap != 0) return "no overlap";
              if (!(seen.backward >= asleep && seen.exposed > 0)) return "parts";
              if (!(seen.communication <= seen.backward + seen.exposed + 1e-9)) return "sum";
              const auto times = reducer.timeline();
              if (times.size() != reducer.buckets().size()) return "a bucket without times";
              std::uint64_t bytes = 0;
              for (std::size_t i = 0; i < times.size(); ++i) {
                if (times[i].bucket != i) return "another bucket";
                if (!(times[i].begin >= 0 && times[i].end >= times[i].begin)) return "times";
                if (i > 0 && times[i].begin < times[i - 1].begin) return "order";
                bytes += times[i].bytes;
              }
              if (4 * bytes != seen.bytes) return "bytes of the buckets";
              reducer.begin(false);
              if (reducer.timeline().front().begin != times.front().begin)
                return "the next begin() changed the times";
              reducer.wait();
              return {};
            })) == "");
  }
}

TEST_CASE("a forked child may destroy a reducer in the middle of a step") {
  for (const char* transport : {"shm", "tcp"}) {
    INFO(transport);
    auto ranks = Communicator::createAll(2, plainOptions(transport));
    std::vector<Model> models(2, Model({{10}, {20}}, true));
    std::vector<std::unique_ptr<GradientReducer>> reducers(2);
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              const auto rank = static_cast<std::size_t>(comm.rank());
              reducers[rank] = std::make_unique<GradientReducer>(comm, models[rank].parameters());
              return {};
            })) == "");
    reducers[0]->begin();
    for (const std::size_t i : {1U, 0U}) reducers[0]->ready(i); // rank 1 does not come yet
    REQUIRE(Child([&] {
              reducers.clear();
              ranks.clear();
              return 0;
            }).end() == 0);
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              if (comm.rank() == 0) reducers[0]->wait();
              else step(*reducers[1], models[1], 1, 0);
              return {};
            })) == "");
  }
}

TEST_CASE("time covered by several intervals counts once, and only up to the end") {
  using gradients::Clock, gradients::Interval;
  const auto at = [](int second) { return Clock::time_point(std::chrono::seconds(second)); };
  const auto sum = [&at](const std::vector<std::pair<int, int>>& pairs, int until) {
    std::vector<Interval> intervals;
    for (const auto& [begin, end] : pairs) intervals.push_back({at(begin), at(end)});
    return gradients::covered(intervals, at(until));
  };
  CHECK(sum({}, 100) == 0);
  CHECK(sum({{2, 5}}, 100) == 3);
  CHECK(sum({{2, 5}, {7, 8}}, 100) == 4);           // a gap
  CHECK(sum({{2, 5}, {5, 8}}, 100) == 6);           // adjacent
  CHECK(sum({{2, 5}, {4, 8}}, 100) == 6);           // overlapping
  CHECK(sum({{2, 9}, {3, 4}, {5, 6}}, 100) == 7);   // nested
  CHECK(sum({{2, 9}, {3, 4}, {5, 12}}, 100) == 10); // nested, and one that ends later
  CHECK(sum({{2, 2}, {2, 5}, {2, 4}}, 100) == 3);   // the same begin
  CHECK(sum({{2, 5}, {7, 10}}, 8) == 4);            // across the end
  CHECK(sum({{2, 9}, {3, 12}}, 8) == 6);            // both across the end
  CHECK(sum({{2, 5}, {7, 10}}, 7) == 3);            // one begins at the end
  CHECK(sum({{2, 5}, {7, 10}}, 2) == 0);            // all after the end
  CHECK(gradients::covered({{at(2), at(5)}}, Clock::time_point::max()) == 3);
}

} // namespace rondo::test
