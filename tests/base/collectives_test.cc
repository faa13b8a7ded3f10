// The table of collectives, compared with what MPI and NCCL specify.
#include "rondo/collectives.h"

#include <string>
#include <utility>

#include "support/test.h"

namespace rondo::test {
namespace {

/// "4 on root -> 1, own 2 -> 0, in place": numbers of blocks with 4 ranks, own blocks of rank 2.
std::string words(Collective c) {
  const detail::CollectiveTraits& of = traits(c);
  const auto blocks = [](const detail::BufferBlocks& buffer) {
    const std::size_t root = buffer.count(4, 3, 3), other = buffer.count(4, 2, 3);
    if (buffer.rootOnly()) CHECK(other == 0);
    else CHECK(root == other);
    const bool first = buffer.count(4, 0, 0) > 0;
    return std::to_string(root) + (buffer.rootOnly() ? " on root" : "") +
           (root > 0 && !first ? " but on rank 0" : "");
  };
  return blocks(of.input) + " -> " + blocks(of.output) + ", own " +
         std::to_string(of.input.own(2)) + " -> " + std::to_string(of.output.own(2)) +
         (of.in_place ? ", in place" : "") + (of.reduces() ? ", reduces" : "") +
         (of.hasRoot() ? ", root" : "") + (of.perRank() ? ", v-form" : "") +
         (of.movesData() ? "" : ", moves nothing");
}

} // namespace

TEST_CASE("each collective has its blocks, its in-place rule and its v-form") {
  CHECK(words(Collective::allreduce) == "1 -> 1, own 0 -> 0, in place, reduces");
  CHECK(words(Collective::reduce) == "1 -> 1 on root, own 0 -> 0, in place, reduces, root");
  CHECK(words(Collective::reducescatter) == "4 -> 1, own 2 -> 0, in place, reduces, v-form");
  CHECK(words(Collective::broadcast) == "1 on root -> 1, own 0 -> 0, in place, root");
  CHECK(words(Collective::scatter) == "4 on root -> 1, own 2 -> 0, in place, root, v-form");
  CHECK(words(Collective::gather) == "1 -> 4 on root, own 0 -> 2, in place, root, v-form");
  CHECK(words(Collective::allgather) == "1 -> 4, own 0 -> 2, in place, v-form");
  CHECK(words(Collective::alltoall) == "4 -> 4, own 2 -> 2, v-form");
  CHECK(words(Collective::barrier) == "0 -> 0, own 0 -> 0, moves nothing");
  CHECK(words(Collective::sendrecv) == "1 -> 1, own 0 -> 0");
  CHECK(words(Collective::scan) == "1 -> 1, own 0 -> 0, in place, reduces");
  CHECK(words(Collective::exclusivescan) == "1 -> 1 but on rank 0, own 0 -> 0, in place, reduces");
}

TEST_CASE("each block of an output is made from the ranks that MPI names") {
  const auto from = [](Collective c, int rank, int block) {
    const detail::RankRange ranks = traits(c).contributorsTo(rank, block, 1, 4);
    return std::pair(ranks.first, ranks.end);
  };
  CHECK(from(Collective::allreduce, 2, 0) == std::pair(0, 4));
  CHECK(from(Collective::reduce, 1, 0) == std::pair(0, 4));
  CHECK(from(Collective::reducescatter, 2, 0) == std::pair(0, 4));
  CHECK(from(Collective::broadcast, 2, 0) == std::pair(1, 2));
  CHECK(from(Collective::scatter, 2, 0) == std::pair(1, 2));
  CHECK(from(Collective::gather, 1, 3) == std::pair(3, 4));
  CHECK(from(Collective::allgather, 2, 3) == std::pair(3, 4));
  CHECK(from(Collective::alltoall, 2, 3) == std::pair(3, 4));
  CHECK(from(Collective::scan, 2, 0) == std::pair(0, 3));
  CHECK(from(Collective::exclusivescan, 2, 0) == std::pair(0, 2));
  CHECK(traits(Collective::barrier).contributorsTo(2, 0, 1, 4).empty());
}

TEST_CASE("collectives are found by name, title and alias, and no word means two of them") {
  for (const Collective c : kCollectives)
    for (const Collective d : kCollectives)
      for (const std::string_view word : {traits(c).name, traits(c).alias})
        if (c != d && !word.empty()) CHECK((word != traits(d).name && word != traits(d).alias));
  CHECK(parseCollective("Bcast") == Collective::broadcast);
  CHECK(parseCollective("ReduceScatter") == Collective::reducescatter);
  CHECK(parseCollective("reduce_scatter") == Collective::reducescatter);
}

} // namespace rondo::test
