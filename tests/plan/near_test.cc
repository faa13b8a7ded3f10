// Tests that rings and trees follow a layout: neighbours share nodes, and the plans stay right.
#include "plan/near.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "plan/check.h"
#include "plan/count.h"
#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

double betweenNodes(const Algorithm& algorithm, const Spec& spec) {
  return count(buildAll(algorithm, spec)).between_nodes;
}

const std::vector<std::string> kDealt{
    "0.1.0",           "0.1.0.1",         "0.1.1.0.2",       "0.1.2.0.1.2.0",
    "0.1.2.3.0.1.2.3", "0.0.0.0/0.1.0.1", "0.0.1.1.0.0.1.1", "0.1.0.1.0.1.0.1/0.1.2.3.0.1.2.3"};

} // namespace

TEST_CASE("ranks of a node are adjacent, inside it those of a socket, and the root is first") {
  const auto orderOf = [](const std::string& layout, Collective collective, int root = 0) {
    const Layout value = parseLayout(layout);
    const int ranks = static_cast<int>(value.groups.front().size());
    return nearOrder({collective, ranks, root, 0, value});
  };
  using Order = std::vector<int>;
  CHECK(orderOf("0.1.0.1", Collective::allreduce) == Order{0, 2, 1, 3});
  CHECK(orderOf("0.1.0.1", Collective::broadcast, 3) == Order{3, 1, 0, 2});
  CHECK(orderOf("0.0.0.0/0.1.0.1", Collective::allgather) == Order{0, 2, 1, 3});
  CHECK(orderOf("0.1.2.0.1.2/0.1.2.3.4.5", Collective::reduce, 4) == Order{4, 1, 0, 3, 2, 5});
  CHECK(orderOf("2x2", Collective::broadcast, 3) == Order{0, 1, 2, 3}); // already has the property
  CHECK(nearOrder({Collective::allreduce, 3}) == Order{0, 1, 2});
}

TEST_CASE("ranks are in the order of their groups, and the root's groups come first") {
  std::mt19937 random(8);
  for (int run = 0; run < 200; ++run) {
    const int ranks = 1 + static_cast<int>(random() % 20);
    const int root = static_cast<int>(random() % static_cast<unsigned>(ranks));
    Layout layout;
    std::vector<int> names(static_cast<std::size_t>(ranks), 0);
    for (int level = 0; level < 3; ++level) {
      for (int& one : names) one = 3 * one + static_cast<int>(random() % 3);
      layout.groups.push_back(numbered(names));
    }
    const auto key = [&](int rank, int first) {
      std::vector<int> values;
      for (const auto& groups : layout.groups) {
        const int own = groups[static_cast<std::size_t>(rank)];
        values.push_back(own == groups[static_cast<std::size_t>(first)] ? -1 : own);
      }
      values.push_back(rank == first ? -1 : rank);
      return values;
    };
    std::vector<int> order(static_cast<std::size_t>(ranks));
    for (const int first : {0, root}) {
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, {}, [&](int rank) { return key(rank, first); });
      if (std::ranges::is_sorted(order)) break;
    }
    CAPTURE(text(layout), root);
    CHECK(nearOrder({Collective::broadcast, ranks, root, 0, layout}) == order);
  }
}

TEST_CASE(
    "rings and trees of ranks that are dealt out are proved, and leave nodes as rarely as "
    "those of ranks in turn") {
  for (const char* name : {"ring", "chain", "tree", "double_tree"})
    for (const std::string& written : kDealt)
      for (const Collective collective : kCollectives) {
        const Algorithm& algorithm = *findAlgorithm(name);
        const Layout layout = parseLayout(written);
        const int ranks = static_cast<int>(layout.groups.front().size());
        for (int root = 0; root < (hasRoot(collective) ? ranks : 1); ++root) {
          const Spec spec{collective, ranks, root, 0, layout};
          if (!algorithm.supports(spec)) continue;
          CAPTURE(name, written, rondo::name(collective), root);
          const Report report = check(algorithm, spec);
          REQUIRE(report.text() == "");
        }
      }
}

TEST_CASE("a ring leaves each node once, for any rank numbers; a chain leaves one node less") {
  for (const std::string& written : kDealt) {
    CAPTURE(written);
    const Layout layout = parseLayout(written);
    const int ranks = static_cast<int>(layout.groups.front().size());
    const auto nodes = static_cast<double>(layout.nodes().size());
    const double p = ranks, crossings = nodes > 1 ? nodes : 0;
    CHECK(betweenNodes(*findAlgorithm("ring"), {Collective::allreduce, ranks, 0, 0, layout}) ==
          Approx(crossings * 2 * (p - 1) / p));
    CHECK(betweenNodes(*findAlgorithm("ring"), {Collective::allgather, ranks, 0, 0, layout}) ==
          Approx(crossings * (p - 1)));
    for (int root = 0; root < ranks; ++root)
      CHECK(betweenNodes(*findAlgorithm("chain"),
                         {Collective::broadcast, ranks, root, 0, layout}) == Approx(nodes - 1));
  }
}

} // namespace rondo::test
