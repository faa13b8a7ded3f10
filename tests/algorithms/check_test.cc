// Proves every algorithm with the checker, for every number of ranks and root of a grid.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plan/check.h"
#include "plan/facts.h"
#include "plan/registry.h"
#include "support/paths.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

constexpr int kAllRoots = 17; ///< below: all roots and parameters; from here on: the extreme ones

std::vector<int> interesting(int ranks) {
  std::vector<int> some;
  for (int i = 0; i < ranks; ++i) {
    if (ranks < kAllRoots || i < 2 || i == ranks / 2 || i == ranks - 1) some.push_back(i);
  }
  return some;
}

std::string describe(const Algorithm& algorithm, const Spec& spec) {
  return std::string(name(spec.collective)) + " " + std::string(algorithm.name) + "/" +
         std::to_string(spec.parameter) + " p=" + std::to_string(spec.ranks) +
         " root=" + std::to_string(spec.root);
}

template <typename Visit>
void forEachSpec(int ranks, Visit visit) {
  for (const Collective collective : kCollectives) {
    if (collective == Collective::sendrecv) continue;
    for (const int root : interesting(hasRoot(collective) ? ranks : 1)) {
      for (const int parameter : interesting(ranks + 1)) {
        const Spec spec{.collective = collective,
                        .ranks = ranks,
                        .root = root,
                        .parameter = parameter,
                        .multicast = true};
        for (const Algorithm* algorithm : supporting(spec)) visit(*algorithm, spec);
      }
    }
  }
}

} // namespace

TEST_CASE("every plan is proved, closed form included, at depth 1, 2 and 8") {
  // 1..64 without gaps, then both neighbours of a power of two, and a number with many factors.
  std::vector<int> counts;
  for (int p = 1; p <= (kWholeGrid ? 64 : 17); ++p) counts.push_back(p);
  if (kWholeGrid) counts.insert(counts.end(), {96, 127, 128, 129});
  for (const int ranks : counts) {
    forEachSpec(ranks, [](const Algorithm& algorithm, const Spec& spec) {
      const Report report = check(algorithm, spec);
      INFO(describe(algorithm, spec) << "\n" << report.text());
      REQUIRE(report.ok());
      REQUIRE(report.depths == std::vector<int>{1, 2, 8});
      REQUIRE(report.reduction.agrees);
    });
  }
}

// Proves: plans that are refused before their data flow is followed do not reduce in rank order.
TEST_CASE("a fact about rank order says what the whole check says") {
  for (const int ranks : {1, 2, 3, 4, 5, 8, 13})
    forEachSpec(ranks, [](const Algorithm& algorithm, const Spec& spec) {
      INFO(describe(algorithm, spec));
      CHECK(Facts(algorithm, spec).inRankOrder() == check(algorithm, spec).reduction.rank_order);
    });
}

TEST_CASE("algorithms that claim rank order reduce so, and every reduction has one") {
  const std::set<std::string_view> ordered{"oneshot", "direct", "linear", "parameter_server"};
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 13, 16}) {
    std::map<Collective, int> found;
    forEachSpec(ranks, [&](const Algorithm& algorithm, const Spec& spec) {
      if (!reduces(spec.collective) || ordered.count(algorithm.name) == 0) return;
      INFO(describe(algorithm, spec));
      CHECK(Facts(algorithm, spec).inRankOrder());
      ++found[spec.collective];
    });
    CHECK(static_cast<std::size_t>(std::ranges::count_if(
              kCollectives, [](Collective c) { return reduces(c); })) == found.size());
  }
}

TEST_CASE("the plans that decide the speed have one lane, and few steps for two ranks") {
  const auto lanes = [](const char* algorithm, int ranks) {
    const Algorithm& found = *findAlgorithm(algorithm);
    return found.build({Collective::allreduce, ranks, 0, 0}, ranks - 1).lanes;
  };
  for (const int ranks : {2, 3, 4, 8, 13}) {
    for (const char* name : {"oneshot", "direct", "ring", "butterfly", "halving_doubling"}) {
      CAPTURE(name, ranks);
      CHECK(lanes(name, ranks).size() == 1);
    }
  }
  CHECK(lanes("oneshot", 2)[0].steps.size() == 2);
  CHECK(lanes("butterfly", 2)[0].steps.size() == 2);
  for (const char* name : {"direct", "ring", "halving_doubling"}) {
    const auto steps = lanes(name, 2)[0].steps;
    CAPTURE(name);
    REQUIRE(steps.size() == 3);
    CHECK((steps[1].inputs.size() == 2 && steps[1].output && steps[1].sends.size() == 1));
  }
}

TEST_CASE("a plan depends on its arguments only, and carries them") {
  for (const int ranks : {1, 2, 5, 8}) {
    forEachSpec(ranks, [](const Algorithm& algorithm, const Spec& spec) {
      for (int rank = 0; rank < spec.ranks; ++rank) {
        const RankPlan plan = algorithm.build(spec, rank);
        INFO(describe(algorithm, spec));
        CHECK(plan == algorithm.build(spec, rank));
        CHECK((plan.spec == spec && plan.rank == rank));
      }
    });
  }
}

TEST_CASE("algorithms support only their own collectives and parameters") {
  for (const Algorithm* algorithm : algorithms()) {
    CAPTURE(algorithm->name);
    for (const Collective collective : kCollectives) {
      CHECK_FALSE(algorithm->supports({collective, 0, 0, 0}));
      CHECK_FALSE(algorithm->supports({collective, 4, 4, 0}));
      CHECK_FALSE(algorithm->supports({collective, 4, -1, 0}));
      CHECK_FALSE(algorithm->supports({collective, 4, 0, -1}));
      CHECK_FALSE(algorithm->supports({collective, 4, 0, 5}));
    }
    CHECK_FALSE(algorithm->supports({Collective::sendrecv, 2, 0, 0}));
  }
}

TEST_CASE("every file of src/algorithms is registered under its own name, and only those") {
  std::set<std::string> files, names;
  for (const auto& entry :
       std::filesystem::directory_iterator(RONDO_SOURCE_DIR "/src/algorithms")) {
    if (entry.path().extension() == ".cc") files.insert(entry.path().stem().string());
  }
  for (const Algorithm* algorithm : algorithms()) {
    CHECK(names.insert(std::string(algorithm->name)).second);
    CHECK_FALSE(algorithm->summary.empty());
  }
  CHECK(files == names);
}

} // namespace rondo::test
