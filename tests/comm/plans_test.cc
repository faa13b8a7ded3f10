// Tests how often plans are built: once per collective, for any counts.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/log.h"
#include "support/collective_case.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// Captures the log while it lives.
class LogFile {
 public:
  LogFile() {
    const int descriptor = ::mkstemp(path_.data());
    REQUIRE(descriptor >= 0);
    ::close(descriptor);
  }
  const std::string& path() const { return path_; }
  ~LogFile() {
    base::configureLog(LogLevel::warn, "");
    ::unlink(path_.c_str());
  }
  int linesWith(const std::string& text) const {
    std::ifstream file(path_);
    int found = 0;
    for (std::string line; std::getline(file, line);) found += line.find(text) != line.npos;
    return found;
  }

 private:
  std::string path_ = "/tmp/rondo_log_XXXXXX";
};

void callAll(std::vector<Communicator>& ranks, std::size_t from, std::size_t to) {
  const auto wrong = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
    std::vector<float> in(4096, 1.0f), out(4096);
    for (std::size_t count = from; count < to; ++count) {
      comm.allReduce(in.data(), out.data(), count, DataType::float32, ReduceOp::sum);
      comm.broadcast(in.data(), out.data(), count, DataType::float32, 1);
      comm.reduceScatter(in.data(), out.data(), count, DataType::float32, ReduceOp::sum);
      std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size()), count);
      std::vector<std::size_t> offsets(counts.size());
      for (std::size_t r = 0; r < counts.size(); ++r) offsets[r] = r * count;
      comm.allGatherv(in.data(), count, out.data(), {counts, offsets}, DataType::float32);
    }
    return {};
  }));
  REQUIRE(wrong == "");
}

} // namespace

TEST_CASE("a new count of a known collective builds no plan", "[plans]") {
  for (const bool deterministic : {false, true}) {
    INFO((deterministic ? "deterministic" : "in any order"));
    const LogFile log;
    Options options = plainOptions("inproc");
    options.deterministic = deterministic;
    options.log_level = LogLevel::trace;
    options.log_file = log.path();
    auto ranks = Communicator::createAll(4, options);
    callAll(ranks, 1, 2);
    const int own = log.linesWith("builds its plan"), all = log.linesWith("builds all plans");
    CHECK(own == 4 * 4); // ranks x collectives
    CHECK(all >= 4);     // to know which plans serve blocks of different sizes
    callAll(ranks, 2, 30);
    CHECK(log.linesWith("builds its plan") == own);
    CHECK(log.linesWith("builds all plans") == all);
  }
}

// Proves: a call that names its algorithm is planned once per shape and name, as other calls are.
TEST_CASE("calls that name their algorithm are planned once per shape", "[plans]") {
  const LogFile log;
  Options options = plainOptions("inproc");
  options.log_level = LogLevel::info;
  options.log_file = log.path();
  auto ranks = Communicator::createAll(2, options);
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            std::vector<float> data(100, 1.0f);
            CollectiveCall call{.collective = Collective::allreduce,
                                .input = data.data(),
                                .output = data.data(),
                                .type = DataType::float32};
            for (int round = 0; round < 3; ++round)
              for (const std::size_t count : {10, 20})
                for (const char* name : {"ring", "tree"}) {
                  call.count = count;
                  comm.call(call, name);
                }
            return {};
          })) == "");
  CHECK(log.linesWith("AllReduce of 20 float uses tree (the call names it)") == 1);
  CHECK(log.linesWith("(the call names it)") == 4);
}

} // namespace rondo::test
