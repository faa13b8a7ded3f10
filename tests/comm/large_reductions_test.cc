// Tests reductions whose messages are so large that results are computed in blocks and then copied
// to the slots of the peers, or to an output that peers read in place (transport::kCopiedBlock).
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

std::int32_t term(std::size_t rank, std::size_t at) {
  return static_cast<std::int32_t>(at % 977 * 13 + at / 4096 * 7 + rank * 101);
}

/// The sum over `ranks` of term().
std::int32_t sum(std::size_t ranks, std::size_t at) {
  std::int32_t all = 0;
  for (std::size_t r = 0; r < ranks; ++r) all += term(r, at);
  return all;
}

/// "" or the first wrong element of `count` that begin with element `begin` of the whole result.
std::string check(const std::string& call, const std::int32_t* from, std::size_t ranks,
                  std::size_t begin, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (from[i] != sum(ranks, begin + i)) return call + ": element " + std::to_string(begin + i);
  return {};
}

/// Reduces `count` elements for each rank by each collective that reduces, in place and not.
std::string everyReduction(Communicator& comm, std::size_t count) {
  const auto p = static_cast<std::size_t>(comm.size()), own = static_cast<std::size_t>(comm.rank());
  const std::size_t all = p * count;
  const int last = comm.size() - 1;
  std::vector<std::int32_t> in(all), out(all), same(all);
  Buffer mapped_in = comm.allocate(all * sizeof(std::int32_t)),
         mapped_out = comm.allocate(all * sizeof(std::int32_t));
  auto* const lent_in = static_cast<std::int32_t*>(mapped_in.data());
  auto* const lent_out = static_cast<std::int32_t*>(mapped_out.data());
  for (std::size_t i = 0; i < all; ++i) in[i] = same[i] = lent_in[i] = term(own, i);

  comm.allReduce(lent_in, lent_out, all, DataType::int32, ReduceOp::sum);
  if (auto wrong = check("allreduce, mapped", lent_out, p, 0, all); !wrong.empty()) return wrong;
  comm.allReduce(in.data(), out.data(), all, DataType::int32, ReduceOp::sum);
  if (auto wrong = check("allreduce", out.data(), p, 0, all); !wrong.empty()) return wrong;
  comm.allReduce(same.data(), same.data(), all, DataType::int32, ReduceOp::sum);
  if (auto wrong = check("allreduce in place", same.data(), p, 0, all); !wrong.empty())
    return wrong;
  std::ranges::fill(out, 0);
  comm.reduce(in.data(), out.data(), all, DataType::int32, ReduceOp::sum, last);
  if (comm.rank() == last)
    if (auto wrong = check("reduce", out.data(), p, 0, all); !wrong.empty()) return wrong;
  std::ranges::fill(out, 0);
  comm.reduceScatter(in.data(), out.data(), count, DataType::int32, ReduceOp::sum);
  return check("reducescatter", out.data(), p, own * count, count);
}

} // namespace

// Proves: each block of a result reaches the output and all slots, also the last, shorter one,
// where a rank keeps the result (direct) and where it only passes it on (ring, tree, halving).
TEST_CASE("large results are complete on all ranks that get them", "[large]") {
  constexpr std::size_t kCount = (std::size_t{96} << 10) + 19; // elements; blocks have 4096
  for (const char* transport : {"inproc", "shm"})
    for (const int size : {2, 3, 4, 5})
      for (const char* algorithm : {"?direct", "?ring", "?tree", "?halving,halving_doubling"})
        for (const int threads : {1, 2}) {
          Options options = plainOptions(transport, algorithm);
          options.threads = threads;
          auto ranks = Communicator::createAll(size, options);
          INFO(transport << ", " << size << " ranks, " << algorithm << " " << threads
                         << " threads of each");
          REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) {
                    return everyReduction(comm, kCount);
                  })) == "");
        }
}

} // namespace rondo::test
