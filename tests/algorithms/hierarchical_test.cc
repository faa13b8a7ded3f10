// Proves compositions over every layout of a grid with the checker, including closed forms.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "plan/check.h"
#include "plan/registry.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

const Algorithm& hierarchical() { return *findAlgorithm("hierarchical"); }

std::string describe(const Spec& spec) {
  return std::string(name(spec.collective)) + " " +
         Choice{&hierarchical(), spec.parameter, spec.inner, spec.outer}.text() + " of layout " +
         text(spec.layout) + ", root " + std::to_string(spec.root);
}

void prove(const Spec& spec) {
  const Report report = check(hierarchical(), spec);
  INFO(describe(spec) << "\n" << report.text());
  REQUIRE(report.ok());
  REQUIRE(report.depths == std::vector<int>{1, 2, 8});
  REQUIRE(report.reduction.agrees);
}

/// Nodes of these sizes, with consecutive ranks.
Layout contiguous(const std::vector<int>& sizes) {
  Layout layout;
  auto& groups = layout.groups.emplace_back();
  for (std::size_t v = 0; v < sizes.size(); ++v)
    groups.insert(groups.end(), static_cast<std::size_t>(sizes[v]), static_cast<int>(v));
  return layout;
}

/// All ways to write `ranks` as an ordered sum: 2^(ranks-1).
std::vector<Layout> compositions(int ranks) {
  std::vector<Layout> layouts;
  for (int cuts = 0; cuts < 1 << (ranks - 1); ++cuts) {
    std::vector<int> sizes{1};
    for (int r = 1; r < ranks; ++r) {
      if ((cuts >> (r - 1) & 1) != 0) sizes.push_back(0);
      ++sizes.back();
    }
    layouts.push_back(contiguous(sizes));
  }
  return layouts;
}

/// All ways to write `ranks` as a sum with descending terms.
void partitions(int ranks, int most, std::vector<int>& sizes, std::vector<Layout>& layouts) {
  if (ranks == 0) layouts.push_back(contiguous(sizes));
  for (int next = std::min(ranks, most); next >= 1; --next) {
    sizes.push_back(next);
    partitions(ranks - next, next, sizes, layouts);
    sizes.pop_back();
  }
}

/// Ranks on random nodes, so that a node's ranks are not consecutive.
Layout drawn(int ranks, int nodes, std::mt19937& random, int levels = 1) {
  Layout layout;
  std::vector<int> names(static_cast<std::size_t>(ranks), 0);
  for (int level = 0; level < levels; ++level) {
    for (int& one : names)
      one = one * nodes + static_cast<int>(random() % static_cast<unsigned>(nodes));
    layout.groups.push_back(numbered(names));
  }
  return layout;
}

/// If each rank gets data of other ranks, as in scans, the order of the ranks matters, whatever
/// nodes they are on. Such a collective is not composed.
bool composes(Collective collective) {
  const detail::CollectiveTraits& of = traits(collective);
  return collective != Collective::sendrecv &&
         of.contributorsTo(0, 0, 0, 4) == of.contributorsTo(1, 0, 0, 4);
}

/// Proves all collectives with these roots. Returns how many specs the algorithm supports.
int proveAll(const Layout& layout, const std::vector<int>& roots, bool parameters) {
  int proved = 0;
  const int ranks = static_cast<int>(layout.groups[0].size());
  for (const Collective collective : kCollectives) {
    if (!composes(collective)) continue;
    for (const int root : hasRoot(collective) ? roots : std::vector<int>{0}) {
      for (int parameter = 0; parameter <= (parameters ? ranks : 0); ++parameter) {
        const Spec spec{.collective = collective,
                        .ranks = ranks,
                        .root = root,
                        .parameter = parameter,
                        .layout = layout};
        const bool supported = hierarchical().supports(spec);
        INFO(describe(spec));
        if (parameter == 0) REQUIRE(supported == layout.clustered());
        if (!supported) continue;
        prove(spec);
        ++proved;
      }
    }
  }
  return proved;
}

std::vector<int> all(int ranks) {
  std::vector<int> roots(static_cast<std::size_t>(ranks));
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

} // namespace

TEST_CASE(
    "every layout of up to 8 ranks on nodes of consecutive ranks: all collectives, roots and "
    "leaders") {
  int proved = 0;
  for (int ranks = 1; ranks <= (kWholeGrid ? 8 : 7); ++ranks)
    for (const Layout& layout : compositions(ranks)) {
      const auto roots = kWholeGrid ? all(ranks) : std::vector<int>{0, ranks - 1};
      proved += proveAll(layout, roots, true);
    }
  CHECK(proved > (kWholeGrid ? 16000 : 2000));
}

// Every third of all 848 ways to divide the ranks, and some orders of these. `rondo plan --check
// --layout all -p 9-16 --algorithm hierarchical` proves all orders, 2^(p-1) layouts: 172,127 plans
// of 13 ranks in 45 s of a processor; each further rank takes 2 to 3 times as long.
TEST_CASE(
    "layouts of 9 to 16 ranks: sizes of nodes in descending order, and some in other orders") {
  int layouts = 0;
  std::mt19937 random(20261122);
  for (int ranks = 9; ranks <= 16; ++ranks) {
    std::vector<Layout> some;
    std::vector<int> sizes;
    partitions(ranks, ranks, sizes, some);
    for (int i = 0; i < 8; ++i) {
      const auto cuts = compositions(ranks);
      some.push_back(cuts[random() % cuts.size()]);
    }
    for (std::size_t i = 0; i < some.size(); ++i, ++layouts) {
      if (i % (kWholeGrid ? 3 : 32) != 0) continue;
      const int root = static_cast<int>(random() % static_cast<unsigned>(ranks));
      proveAll(some[i], {root}, false);
    }
  }
  CHECK(layouts == 30 + 42 + 56 + 77 + 101 + 135 + 176 + 231 + 8 * 8);
}

TEST_CASE("layouts drawn at random, with ranks of a node anywhere, and with sockets in nodes") {
  std::mt19937 random(4);
  const int rounds = kWholeGrid ? 20 : 4;
  for (int round = 0; round < rounds; ++round) {
    const int ranks = 2 + static_cast<int>(random() % (kWholeGrid ? 30 : 14));
    const int nodes = 2 + static_cast<int>(random() % 4);
    const int root = static_cast<int>(random() % static_cast<unsigned>(ranks));
    for (const int levels : {1, 2, 3}) proveAll(drawn(ranks, nodes, random, levels), {root}, false);
  }
  for (const char* even : {"2x2x2", "2x2x4", "4x2x2", "2x2x2x2", "3x4", "4x4"})
    proveAll(parseLayout(even), {0, 5}, kWholeGrid);
}

TEST_CASE("every pair of algorithms that composes is proved") {
  std::map<Collective, int> pairs;
  const int count = static_cast<int>(algorithms().size());
  for (const char* layout : {"2x2", "4x2", "2x4", "3,1,4", "0.1.2.0.1.2", "2x2x2"}) {
    const Layout places = parseLayout(layout);
    for (const Collective collective : kCollectives)
      for (int inner = 1; inner <= count; ++inner)
        for (int outer = 1; outer <= count; ++outer) {
          const Spec spec{.collective = collective,
                          .ranks = static_cast<int>(places.groups[0].size()),
                          .root = hasRoot(collective) ? 1 : 0,
                          .layout = places,
                          .inner = inner,
                          .outer = outer};
          if (!hierarchical().supports(spec)) continue;
          prove(spec);
          ++pairs[collective];
        }
  }
  for (const Collective collective : kCollectives)
    CHECK((pairs[collective] >= 6) == composes(collective));
  const Choice choice = parseChoice("hierarchical(ring,tree)");
  CHECK(hierarchical().supports(choice.applied(
      {.collective = Collective::allreduce, .ranks = 8, .layout = parseLayout("4x2")})));
}

TEST_CASE("bytes between nodes are minimal, and less than a flat ring's") {
  for (const char* written : {"2x2", "4x2", "2x8", "8x8", "3,1,4", "2,5", "0.1.2.3.0.1.2.3"}) {
    CAPTURE(written);
    const Layout layout = parseLayout(written);
    const int p = static_cast<int>(layout.groups[0].size());
    const double nodes = static_cast<double>(layout.nodes().size());
    const auto between = [&](const char* algorithm, Collective collective) {
      const Spec spec{.collective = collective, .ranks = p, .layout = layout};
      return count(buildAll(*findAlgorithm(algorithm), spec)).between_nodes;
    };
    using enum Collective;
    CHECK(between("hierarchical", allreduce) == 2 * (nodes - 1));
    CHECK(between("hierarchical", reduce) == nodes - 1);
    CHECK(between("hierarchical", broadcast) == nodes - 1);
    CHECK(between("hierarchical", allgather) == p * (nodes - 1));
    CHECK(between("hierarchical", reducescatter) == p * (nodes - 1));
    double own = 0;
    for (const auto& node : layout.nodes()) own += static_cast<double>(node.size() * node.size());
    CHECK(between("hierarchical", alltoall) == p * p - own);
    CHECK(between("ring", allreduce) == nodes * 2 * (p - 1) / p); // leaves each node once
    CHECK(between("hierarchical", allreduce) < between("ring", allreduce));
  }
}

TEST_CASE("collectives that cannot be composed are not supported") {
  const auto supports = [](const char* choice, Collective collective, const char* layout) {
    const Layout places = parseLayout(layout);
    const int ranks = places.groups.empty() ? 4 : static_cast<int>(places.groups[0].size());
    return hierarchical().supports(
        parseChoice(choice).applied({.collective = collective, .ranks = ranks, .layout = places}));
  };
  using enum Collective;
  CHECK(supports("hierarchical", allreduce, "2x2"));
  CHECK_FALSE(supports("hierarchical", allreduce, ""));
  CHECK_FALSE(supports("hierarchical", allreduce, "1x4"));
  CHECK_FALSE(supports("hierarchical", allreduce, "4x1"));
  CHECK(supports("hierarchical/2", allreduce, "2,3"));
  CHECK_FALSE(supports("hierarchical/3", allreduce, "2,3"));
  CHECK_FALSE(supports("hierarchical/2", broadcast, "2x2"));
  CHECK_FALSE(supports("hierarchical/2", allgather, "2,3"));
  CHECK_FALSE(supports("hierarchical/2", allgather, "2x4"));
  CHECK_FALSE(supports("hierarchical(ring,ring)", allreduce, "2,3")); // a ring has no Reduce
  CHECK_FALSE(supports("hierarchical(linear,bruck)", allreduce, "2x2"));
  Spec wrong{.collective = allreduce, .ranks = 5, .layout = parseLayout("2x2")};
  CHECK_FALSE(hierarchical().supports(wrong));
}

TEST_CASE("a composition's cost grows with bytes and with each price") {
  for (const char* layout : {"4x2", "3,1,4"})
    for (const Collective collective : kCollectives) {
      const Spec spec{.collective = collective, .ranks = 8, .layout = parseLayout(layout)};
      if (!hierarchical().supports(spec)) continue;
      CAPTURE(layout, name(collective));
      const auto cost = [&](double alpha, double beta, double gamma, double bytes) {
        return hierarchical().cost(spec, {alpha, beta, gamma}, bytes);
      };
      CHECK(cost(2, 1, 1, 100) > cost(1, 1, 1, 100));
      if (!traits(collective).movesData()) continue;
      CHECK(cost(1, 2, 1, 100) > cost(1, 1, 1, 100));
      CHECK(cost(1, 1, 1, 200) > cost(1, 1, 1, 100));
      CHECK((cost(1, 1, 2, 100) > cost(1, 1, 1, 100)) == reduces(collective));
    }
}

} // namespace rondo::test
