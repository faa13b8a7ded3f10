// Compiles and runs the examples of communicator.h, and checks that the header shows the same text.
#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/paths.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

std::string trimmed(const std::string& line) {
  const auto begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? "" : line.substr(begin);
}

std::vector<std::string> linesOf(const char* path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// The code blocks of doc comments, which are indented by four blanks.
std::vector<std::vector<std::string>> examplesOf(const std::vector<std::string>& header) {
  std::vector<std::vector<std::string>> examples;
  bool inside = false;
  for (const std::string& line : header) {
    const std::string text = trimmed(line);
    const bool shown = text.starts_with("///     ");
    if (shown && !inside) examples.emplace_back();
    if (shown) examples.back().push_back(trimmed(text.substr(3)));
    inside = shown;
  }
  return examples;
}

} // namespace

TEST_CASE("the examples of communicator.h give the right results") {
  for (int size : {1, 2, 5}) {
    auto ranks = Communicator::createAll(size, plainOptions());
    REQUIRE(firstComplaint(onRanks(ranks, [size](Communicator& comm) -> std::string {
              {
                std::vector<float> gradients(1000, comm.rank() + 1.0F);
                comm.allReduce(gradients.data(), gradients.data(), gradients.size(),
                               DataType::float32, ReduceOp::avg);
                if (std::abs(gradients[999] - (size + 1) / 2.0F) > 1e-5F) return "allReduce";
              }
              {
                std::vector<float> model(64, comm.rank() == 0 ? 0.5F : 0.0F);
                comm.broadcast(model.data(), model.data(), model.size(), DataType::float32, 0);
                if (model[63] != 0.5F) return "broadcast";
              }
              {
                std::int32_t elements = 3 * comm.rank(), end = 0; // of this rank; of all up to this
                comm.scan(&elements, &end, 1, DataType::int32, ReduceOp::sum);
                if (end != 3 * comm.rank() * (comm.rank() + 1) / 2) return "scan";
              }
              {
                const std::int32_t mine = comm.rank() * comm.rank();
                std::vector<std::int32_t> squares(static_cast<std::size_t>(comm.size()));
                comm.allGather(&mine, squares.data(), 1, DataType::int32);
                if (squares.back() != (size - 1) * (size - 1)) return "allGather";
              }
              {
                // Rank r has r + 1 elements.
                std::vector<std::size_t> counts, offsets;
                std::size_t all = 0;
                for (int r = 0; r < comm.size(); ++r) {
                  counts.push_back(static_cast<std::size_t>(r) + 1);
                  offsets.push_back(all);
                  all += counts.back();
                }
                const std::vector<float> part(counts[static_cast<std::size_t>(comm.rank())], 1.0F);
                std::vector<float> whole(all);
                comm.allGatherv(part.data(), part.size(), whole.data(), {counts, offsets},
                                DataType::float32);
                if (std::count(whole.begin(), whole.end(), 1.0F) != size * (size + 1) / 2)
                  return "allGatherv";
              }
              {
                std::int64_t token = comm.rank(), from_left = -1;
                const int right = (comm.rank() + 1) % comm.size();
                const int left = (comm.rank() + comm.size() - 1) % comm.size();
                Group group; // starts both at once: no rank waits for a neighbour
                comm.send(&token, 1, DataType::int64, right);
                comm.recv(&from_left, 1, DataType::int64, left);
                group.end();
                if (from_left != left) return "send and recv";
              }
              return {};
            })) == "");
  }
}

TEST_CASE("the example of call() uses a ring") {
  auto ranks = Communicator::createAll(2, plainOptions());
  CHECK(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
          std::vector<float> sum(1000, comm.rank() + 1.0F);
          const CollectiveCall call{.collective = Collective::allreduce,
                                    .input = sum.data(),
                                    .output = sum.data(),
                                    .count = sum.size(),
                                    .type = DataType::float32};
          comm.call(call, "ring");
          return sum[999] == 3 ? "" : "call";
        })) == "");
}

TEST_CASE("the example of grow() takes in a rank") {
  auto ranks = Communicator::createAll(2, plainOptions());
  const UniqueId id = UniqueId::create();
  int size = 0;
  {
    const std::jthread joins([&] {
      const Communicator newcomer = Communicator::join(id);
      size = newcomer.size();
    });
    CHECK(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            comm = comm.rank() == 0 ? comm.grow(1, id) : comm.grow(1);
            return comm.size() == 3 ? "" : "grow";
          })) == "");
  }
  CHECK(size == 3);
}

TEST_CASE("communicator.h shows the examples that are compiled here") {
  std::string compiled = "\n";
  for (const std::string& line : linesOf(RONDO_SOURCE_DIR "/tests/comm/examples_test.cc"))
    compiled += trimmed(line) + "\n";
  const auto examples = examplesOf(linesOf(RONDO_SOURCE_DIR "/include/rondo/communicator.h"));
  REQUIRE(examples.size() == 10);
  for (const auto& example : examples) {
    std::string text = "\n";
    for (const std::string& line : example) text += line + "\n";
    INFO(text);
    CHECK(compiled.find(text) != std::string::npos);
  }
}

} // namespace rondo::test
