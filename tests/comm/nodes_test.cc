// Tests ranks that claim to be on several nodes: they share no memory between nodes, and
// compositions give the right results over both kinds of links.
#include <optional>
#include <thread>

#include "plan/layout.h"
#include "plan/registry.h"
#include "support/caught.h"
#include "support/collective_case.h"
#include "support/ranks.h"
#include "support/test.h"
#include "support/uneven_case.h"

namespace rondo::test {
namespace {

/// Ranks as threads, on the nodes of a layout's text form.
std::vector<Communicator> onNodes(const std::string& layout, Options options) {
  const std::vector<int> nodes = plan::parseLayout(layout).groups.front();
  const int size = static_cast<int>(nodes.size());
  const Rendezvous meet = Rendezvous::inProcess(size);
  std::vector<std::optional<Communicator>> made(nodes.size());
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank, options, at = static_cast<std::size_t>(rank)]() mutable {
        options.node = "node " + std::to_string(nodes[at]);
        made[at].emplace(Communicator::create(meet.as(rank), options));
      });
  }
  std::vector<Communicator> ranks;
  for (auto& one : made) ranks.push_back(std::move(one.value()));
  return ranks;
}

/// Slots of 4 KiB, so that few elements make several tiles.
Options composed(const std::string& algorithm) {
  Options options = plainOptions("", algorithm);
  options.channel_bytes = 16 << 10;
  options.channel_depth = 4;
  return options;
}

std::vector<CollectiveCase> casesOf(int ranks) {
  std::vector<CollectiveCase> cases;
  for (const Collective collective : kCollectives) {
    const plan::Spec spec{.collective = collective, .ranks = 4, .layout = plan::parseLayout("2x2")};
    if (!plan::findAlgorithm("hierarchical")->supports(spec)) continue;
    for (const int root :
         hasRoot(collective) ? std::vector<int>{0, ranks - 1} : std::vector<int>{0})
      for (const std::size_t count : {0, 1, 5, 1021, 4099})
        for (const bool in_place : {false, true}) {
          if (in_place && !traits(collective).in_place) continue;
          cases.push_back(
              {collective, count, DataType::int32, ReduceOp::sum, root, in_place, count % 2 == 1});
        }
  }
  return cases;
}

} // namespace

TEST_CASE(
    "every collective gives the right result when composed, over memory inside nodes and TCP "
    "between") {
  std::vector<std::string> layouts{"2x2", "3,1", "0.1.0.1.1", "3x2"};
  if (!kWholeGrid) layouts = {"2,1", "0.1.0.1"};
  for (const std::string& layout : layouts) {
    CAPTURE(layout);
    auto ranks = onNodes(layout, composed("hierarchical"));
    const auto cases = casesOf(static_cast<int>(ranks.size()));
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              for (const CollectiveCase& one : cases) {
                if (comm.algorithmFor(one.collective, one.count, one.type) != "hierarchical")
                  return "it is not composed";
                if (std::string wrong = one.run(comm); !wrong.empty()) return wrong;
              }
              return {};
            })) == "");
  }
}

// Proves: a rank passes on only what it has copied to its output, also in tiles in which most steps
// of the plan have no part.
TEST_CASE("a composed allGatherv passes on no block before it is there") {
  auto ranks = onNodes("2x2", composed("hierarchical"));
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) {
            return lateAllGatherv(comm, 8 << 20); // more than the sockets take
          })) == "");
}

TEST_CASE("allGatherv gives the right result when composed, with blocks of any size") {
  for (const std::string layout : {"2x2", "3,1", "0.1.0.1.1"}) {
    CAPTURE(layout);
    auto ranks = onNodes(layout, composed("hierarchical"));
    REQUIRE(
        firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
          for (int seed = 0; seed < (kWholeGrid ? 10 : 4); ++seed)
            for (const bool in_place : {false, true})
              if (std::string wrong = allGatherv({seed, 0, in_place, false}, comm); !wrong.empty())
                return wrong + ", seed " + std::to_string(seed);
          return {};
        })) == "");
  }
}

TEST_CASE("the named algorithms are those that are composed") {
  for (const char* choice : {"hierarchical(ring,tree)", "hierarchical(linear,butterfly)/1",
                             "hierarchical(direct,parameter_server)"}) {
    CAPTURE(choice);
    auto ranks = onNodes("2x2", composed(choice));
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              if (comm.algorithmFor(Collective::allreduce, 9, DataType::float32) != choice)
                return "another is chosen";
              return CollectiveCase{Collective::allreduce, 4099}.run(comm);
            })) == "");
  }
}

TEST_CASE("ranks of a node share memory, those of different nodes do not") {
  auto ranks = onNodes("0.1.0", plainOptions());
  CHECK(ranks[0].transportTo(2) == "inproc");
  CHECK(ranks[0].transportTo(1) == "tcp");
  CHECK(ranks[1].transportTo(0) == "tcp");
  CHECK(ranks[2].transportTo(1) == "tcp");
}

TEST_CASE("large calls over several nodes are composed by default, on all ranks") {
  auto ranks = onNodes("0.1.0.1", plainOptions());
  const std::size_t large = 2 << 20, small = large - 1;
  for (const Communicator& comm : ranks) {
    CHECK(comm.algorithmFor(Collective::allreduce, large, DataType::uint8) == "hierarchical");
    CHECK(comm.algorithmFor(Collective::allreduce, small, DataType::uint8) != "hierarchical");
  }
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) {
            return CollectiveCase{Collective::allreduce, 600'001}.run(comm);
          })) == "");
}

TEST_CASE("a part of a communicator has the layout of its ranks") {
  auto ranks = onNodes("0.0.0.1.1.1", plainOptions());
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            Communicator node = comm.split(comm.rank() / 3, 0).value();
            Communicator across = comm.split(comm.rank() % 3 == 0 ? 0 : 1, 0).value();
            const auto chosen = [](const Communicator& of) {
              return of.algorithmFor(Collective::allreduce, 4 << 20, DataType::uint8);
            };
            if (chosen(node) == "hierarchical") return "one node is composed";
            if ((chosen(across) == "hierarchical") != (across.size() == 4))
              return "single ranks of nodes are composed";
            return CollectiveCase{Collective::allreduce, 600'001}.run(across);
          })) == "");
}

TEST_CASE("on one node a composition is refused on all ranks, and the communicator lives on") {
  auto ranks = onNodes("1x3", plainOptions("", "allreduce:hierarchical"));
  REQUIRE(
      firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
        const Caught error = caught([&] { CollectiveCase{Collective::allreduce, 5}.run(comm); });
        if (error.code != ErrorCode::unsupported ||
            error.text.find("hierarchical does not support it") == std::string::npos)
          return "it was not refused: " + error.text;
        return CollectiveCase{Collective::broadcast, 5}.run(comm);
      })) == "");
}

} // namespace rondo::test
