// Tests round-robin groups: buckets over several communicators give the same bits as over one.

#include "train/parallel/groups.h"
#include "support/descriptors.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"

namespace rondo::test {

TEST_CASE("groups are communicators of the same ranks, of which the given one is the first") {
  for (int size : {1, 2, 3}) {
    auto ranks = makeRanks(size);
    REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
              const training::Groups groups(comm, 3);
              if (groups.all().size() != 3 || groups.all()[0] != &comm) return "other groups";
              for (Communicator* one : groups.all()) {
                int sum = 1;
                one->allReduce(&sum, &sum, 1, DataType::int32, ReduceOp::sum);
                if (one->rank() != comm.rank() || sum != comm.size()) return "other ranks";
              }
              return {};
            })) == "");
  }
}

#ifdef RONDO_HAVE_DNNL

TEST_CASE("groups do not change a bit in any strategy with buckets, and each has its own sockets") {
  for (const auto& [strategy, mesh] : std::vector<std::pair<std::string, std::string>>{
           {"ddp", ""}, {"pipeline", "data=2,pipe=2"}, {"tensor", "data=2,tensor=2"}}) {
    TrainOptions options = smallRun();
    options.strategy = strategy;
    options.sharding.mesh = mesh;
    options.gradients.bucket_bytes = {0}; // a bucket per layer: each group gets one, on every stage
    const TrainReport expected = trainAll(makeRanks(4), options);
    std::vector<std::size_t> descriptors;
    for (int groups : {1, 2, 3})
      for (bool overlap : {false, true}) {
        if (!overlap && groups != 2) continue;
        options.gradients.groups = groups;
        options.gradients.overlap = overlap;
        std::size_t open = 0;
        INFO(strategy << ", " << groups << " groups, overlap " << overlap);
        requireSame(trainAll(makeRanks(4, "tcp"), options,
                             [&](const TrainProgress&) { open = openDescriptors(); }),
                    expected);
        if (overlap) descriptors.push_back(open);
      }
    REQUIRE(descriptors[0] < descriptors[1]);
    REQUIRE(descriptors[1] < descriptors[2]);
  }
}

TEST_CASE("groups are refused if out of bounds, or if the strategy has no buckets") {
  const auto refusal = [](int groups, const std::string& strategy) {
    TrainOptions options = smallRun();
    options.gradients.groups = groups;
    options.strategy = strategy;
    auto ranks = makeRanks(2);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
    REQUIRE(thrown.code == ErrorCode::invalid_argument);
    return thrown.text;
  };
  CHECK(contains(refusal(0, "ddp"), "groups is 0, must be 1 to 16"));
  CHECK(contains(refusal(17, "ddp"), "groups is 17"));
  CHECK(contains(refusal(2, "fsdp"),
                 "strategy fsdp takes no groups, which is for: ddp, tensor, pipeline"));
}

#endif

} // namespace rondo::test
