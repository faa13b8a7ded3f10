// The correctness grid: every collective and algorithm, rank count, transport, count, type,
// operator.
#include <cmath>
#include <limits>

#include "plan/registry.h"
#include "support/collective_case.h"
#include "support/ranks.h"
#include "support/test.h"
#include "transports/registry.h"

namespace rondo::test {
namespace {

std::vector<std::string> transportNames() {
  std::vector<std::string> names;
  for (const transport::Kind& kind : transport::kinds())
    if (!kind.missing || kind.missing().empty()) names.emplace_back(kind.name);
  return names;
}

std::vector<int> roots(Collective collective, int ranks) {
  if (!hasRoot(collective)) return {0};
  if (kOnlyOrders) return {ranks / 2};
  if (ranks <= 2) return ranks == 1 ? std::vector<int>{0} : std::vector<int>{0, 1};
  return {0, ranks / 2, ranks - 1};
}

/// Runs every case on every rank within one set of threads.
std::string runAll(std::vector<Communicator>& ranks, const std::vector<CollectiveCase>& cases) {
  return firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
    for (const CollectiveCase& one : cases)
      if (std::string wrong = one.run(comm); !wrong.empty()) return wrong;
    return {};
  }));
}

/// Counts around the boundaries of chunks and tiles, in elements of 4 bytes with slots of 4 KiB.
const std::vector<std::size_t> kCounts =
    kWholeGrid    ? std::vector<std::size_t>{0, 1, 2, 7, 8, 9, 63, 1021, 1024, 4099, 20011}
    : kOnlyOrders ? std::vector<std::size_t>{1, 4099}
                  : std::vector<std::size_t>{0, 1, 9, 4099};
/// For types that are only moved, only the size matters.
const std::vector<DataType> kMovedTypes =
    kWholeGrid ? std::vector<DataType>(kDataTypes.begin(), kDataTypes.end())
               : std::vector<DataType>{DataType::int8, DataType::float64};

Options smallSlots(const std::string& transport, const std::string& algorithm) {
  Options options = plainOptions(transport, algorithm);
  options.channel_bytes = 16 << 10;
  options.channel_depth = 4;
  return options;
}

} // namespace

TEST_CASE("every algorithm gives the right result on every transport and rank count") {
  for (const std::string& transport : transportNames())
    for (int ranks : kRankCounts)
      for (const plan::Algorithm* algorithm : plan::algorithms()) {
        // Its workers take longer to make than these calls, and it uses network channels like tcp.
        if (transport == "ucx" && ranks != 2 && ranks != 5) continue;
        std::vector<CollectiveCase> cases;
        for (Collective collective : kCollectives) {
          if (collective == Collective::sendrecv) continue;
          if (!algorithm->supports({collective, ranks, 0, 0})) continue;
          for (int root : roots(collective, ranks))
            for (std::size_t count : kCounts)
              for (bool in_place : {false, true}) {
                if (in_place && !traits(collective).in_place) continue;
                cases.push_back({collective, count, DataType::int32, ReduceOp::sum, root, in_place,
                                 count % 2 == 1});
              }
        }
        if (cases.empty()) continue;
        auto communicators =
            Communicator::createAll(ranks, smallSlots(transport, std::string(algorithm->name)));
        INFO(algorithm->name << " on " << transport << ", " << ranks << " ranks");
        REQUIRE(runAll(communicators, cases) == "");
      }
}

TEST_CASE("max and min ignore NaN from any rank, in every algorithm") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const plan::Algorithm* algorithm : plan::algorithms())
    for (int ranks : kWholeGrid ? std::vector<int>{1, 2, 3, 5, 8} : std::vector<int>{2, 5}) {
      if (!algorithm->supports({Collective::allreduce, ranks, 0, 0})) continue;
      auto communicators =
          Communicator::createAll(ranks, plainOptions("inproc", std::string(algorithm->name)));
      INFO(algorithm->name << ", " << ranks << " ranks");
      REQUIRE(firstComplaint(onRanks(communicators, [&](Communicator& comm) -> std::string {
                for (std::size_t count : {1, 37, 5000})
                  for (int who = 0; who < ranks; ++who) {
                    const float own = static_cast<float>(comm.rank() + 1);
                    const std::vector<float> in(count, comm.rank() == who ? kNan : own);
                    const float most = static_cast<float>(who == ranks - 1 ? ranks - 1 : ranks);
                    for (ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
                      const float right = op == ReduceOp::max ? most : who == 0 ? 2.0f : 1.0f;
                      std::vector<float> out(count);
                      comm.allReduce(in.data(), out.data(), count, DataType::float32, op);
                      for (float v : out)
                        if (ranks == 1 ? !std::isnan(v) : v != right)
                          return std::string(name(op)) + " gave " + std::to_string(v);
                    }
                  }
                return {};
              })) == "");
    }
}

TEST_CASE("a parameter server may be split over any number of servers") {
  for (int ranks : {2, 3, 5, 8})
    for (int servers = 1; servers <= ranks; ++servers) {
      auto communicators = Communicator::createAll(
          ranks, smallSlots("inproc", "parameter_server/" + std::to_string(servers)));
      std::vector<CollectiveCase> cases;
      for (std::size_t count : kCounts)
        cases.push_back({Collective::allreduce, count, DataType::int32, ReduceOp::sum, 0, false});
      INFO(ranks << " ranks, " << servers << " servers");
      REQUIRE(runAll(communicators, cases) == "");
      REQUIRE(communicators[0].algorithmFor(Collective::allreduce, 1, DataType::int32) ==
              "parameter_server/" + std::to_string(servers));
    }
}

TEST_CASE("every type and operator gives the right result, reduced by every reducing collective") {
  // The kernel depends on type, operator and number of inputs, not on the transport.
  for (const std::string& transport : transportNames())
    for (int ranks : kWholeGrid ? std::vector<int>{1, 2, 4, 5} : std::vector<int>{4}) {
      std::vector<CollectiveCase> cases;
      for (Collective collective :
           {Collective::allreduce, Collective::reduce, Collective::reducescatter})
        for (DataType type : kDataTypes)
          for (ReduceOp op : kReduceOps) {
            if (!op.supports(type)) continue;
            // 1/5 is not exact in binary, so the result would depend on the order of the sum.
            if (op == ReduceOp::avg && isFloat(type) && ranks == 5) continue;
            for (std::size_t count : {std::size_t{1}, std::size_t{1021}})
              for (bool in_place : {false, true})
                cases.push_back({collective, count, type, op, ranks - 1, in_place});
          }
      auto communicators = Communicator::createAll(ranks, plainOptions(transport));
      INFO(transport << ", " << ranks << " ranks");
      REQUIRE(runAll(communicators, cases) == "");
    }
}

TEST_CASE("every type can be moved by the collectives that do not reduce, and by send and recv") {
  for (const std::string& transport : transportNames())
    // The grid of algorithms has tried all kinds of messages with every number of ranks.
    for (int ranks : kWholeGrid ? kRankCounts : std::vector<int>{1, 3}) {
      std::vector<CollectiveCase> cases;
      for (Collective collective : kCollectives)
        for (DataType type : kMovedTypes) {
          if (reduces(collective)) continue;
          cases.push_back({collective, 1021, type, ReduceOp::sum, ranks / 2, false});
          cases.push_back({collective, 100'003, type, ReduceOp::sum, ranks / 2, false, true});
        }
      auto communicators = Communicator::createAll(ranks, plainOptions(transport));
      INFO(transport << ", " << ranks << " ranks");
      REQUIRE(runAll(communicators, cases) == "");
    }
}

TEST_CASE("blocks too large for the caches arrive whole") {
  for (const std::string& transport : transportNames())
    for (int ranks : kWholeGrid ? std::vector<int>{2, 3} : std::vector<int>{2}) {
      auto communicators = Communicator::createAll(ranks, plainOptions(transport));
      std::vector<CollectiveCase> cases;
      for (Collective collective : {Collective::allgather, Collective::alltoall})
        cases.push_back({collective, 700'001, DataType::float64, ReduceOp::sum, 0, false, false});
      INFO(transport << ", " << ranks << " ranks");
      REQUIRE(runAll(communicators, cases) == "");
    }
}

TEST_CASE(
    "the least slots, 8 bytes a rank and at least 64, at depth 1 are enough for every algorithm") {
  for (int ranks : kWholeGrid ? std::vector<int>{2, 5, 16, 17} : std::vector<int>{2, 5, 17})
    for (const plan::Algorithm* algorithm : plan::algorithms()) {
      std::vector<CollectiveCase> cases;
      for (Collective collective : kCollectives) {
        if (collective == Collective::sendrecv ||
            !algorithm->supports({collective, ranks, ranks - 1, 0}))
          continue;
        for (std::size_t count : {0, 1, 5, 37})
          cases.push_back({collective, count, DataType::int64, ReduceOp::sum, ranks - 1, false});
      }
      if (cases.empty()) continue;
      Options options = plainOptions("inproc", std::string(algorithm->name));
      options.channel_bytes = 64;
      options.channel_depth = 1;
      auto communicators = Communicator::createAll(ranks, options);
      INFO(algorithm->name << ", " << ranks << " ranks");
      REQUIRE(runAll(communicators, cases) == "");
    }
}

} // namespace rondo::test
