// Tests of scan() and exclusiveScan() beyond the grid: rank 0's output, order and errors.
#include <array>
#include <vector>

#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

const char* const kAlgorithms[] = {"oneshot", "hillis_steele", "chain"};

} // namespace

// Proves: an exclusive scan writes nothing on rank 0, also in place and with one rank, and divides
// nothing there either.
TEST_CASE("an exclusive scan leaves rank 0's output unchanged") {
  for (const char* algorithm : kAlgorithms)
    for (int size : {1, 2, 5}) {
      auto ranks = Communicator::createAll(size, plainOptions("inproc", algorithm));
      INFO(algorithm << ", " << size << " ranks");
      REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
                const int r = comm.rank();
                for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
                  const std::vector<int> in(3000, 60 * (r + 1));
                  std::vector<int> out(3000, -7), both = in;
                  comm.exclusiveScan(in.data(), out.data(), in.size(), DataType::int32, op);
                  comm.exclusiveScan(both.data(), both.data(), both.size(), DataType::int32, op);
                  const int sum = 60 * r * (r + 1) / 2;
                  const int wanted = op == ReduceOp::avg ? sum / comm.size() : sum;
                  if (out != std::vector<int>(3000, r == 0 ? -7 : wanted)) return "output";
                  if (both != std::vector<int>(3000, r == 0 ? 60 : wanted)) return "in place";
                }
                int one = 1;
                comm.exclusiveScan(&one, r == 0 ? nullptr : &one, 1, DataType::int32,
                                   ReduceOp::sum);
                return one == (r == 0 ? 1 : r) ? "" : "null on rank 0";
              })) == "");
    }
}

// Proves: deterministic mode adds floats from rank 0 on, whatever the size of the call.
TEST_CASE("a deterministic scan adds in rank order") {
  Options options = plainOptions("inproc");
  options.deterministic = true;
  auto ranks = Communicator::createAll(5, options);
  const std::array<float, 5> values{1e8F, 3.0F, -1e8F, 1.5F, 1e-3F};
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            const auto r = static_cast<std::size_t>(comm.rank());
            float before = 0, up_to = values[0];
            for (std::size_t q = 1; q <= r; ++q) {
              before = up_to;
              up_to += values[q];
            }
            for (std::size_t count : {1, 1000, 300'000}) {
              const std::vector<float> in(count, values[r]);
              std::vector<float> out(count), exclusive(count);
              comm.scan(in.data(), out.data(), count, DataType::float32, ReduceOp::sum);
              comm.exclusiveScan(in.data(), exclusive.data(), count, DataType::float32,
                                 ReduceOp::sum);
              if (out != std::vector<float>(count, up_to)) return "scan";
              if (exclusive != std::vector<float>(count, before)) return "exclusiveScan";
            }
            return {};
          })) == "");
}

// Proves: wrong arguments are refused by name, and a scan that meets another call is a mismatch.
TEST_CASE("errors of scans name the call") {
  auto ranks = Communicator::createAll(2, plainOptions("inproc"));
  std::array<int, 8> data{};
  CHECK(says(caught([&] {
               ranks[1].exclusiveScan(data.data(), nullptr, 4, DataType::int32, ReduceOp::sum);
             }),
             ErrorCode::invalid_argument, {"ExclusiveScan", "output"}));
  CHECK(says(caught([&] {
               ranks[1].scan(data.data(), data.data() + 1, 4, DataType::int32, ReduceOp::sum);
             }),
             ErrorCode::invalid_argument, {"Scan", "overlap"}));
  std::vector<Caught> errors(2);
  onRanks(ranks, [&](Communicator& comm) -> std::string {
    std::array<int, 4> in{}, out{};
    errors[static_cast<std::size_t>(comm.rank())] = caught([&] {
      if (comm.rank() == 0) comm.scan(in.data(), out.data(), 4, DataType::int32, ReduceOp::sum);
      else comm.exclusiveScan(in.data(), out.data(), 4, DataType::int32, ReduceOp::max);
    });
    return {};
  });
  // Rank 0 receives nothing in a scan, so its call may have ended before the failure is known.
  CHECK(says(errors[1], ErrorCode::mismatch, {"Scan #1 (sum of 4", "ExclusiveScan #1 (max of 4"}));
}

} // namespace rondo::test
