// Tests that a rank that cannot train leaves an elastic run which it has joined: ranks are threads.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/ranks.h"
#include "support/runs.h"
#include "support/temporary_folder.h"
#include "support/test.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

namespace {

Options onLoopback() {
  Options options = plainOptions("shm");
  options.socket_interface = "lo";
  options.init_timeout = std::chrono::seconds(60);
  return options;
}

TrainOptions elasticRun(const std::string& strategy, const TemporaryFolder& folder) {
  TrainOptions options = smallRun();
  options.strategy = strategy;
  options.epochs = 2000; // more than are made: the test asks to stop
  options.stragglers.pace_ms = 10;
  options.elastic.ranks = "1:5";
  options.elastic.rendezvous_file = folder.file("id");
  return options;
}

/// Joins the run and trains with these options, on a thread of its own.
class Newcomer {
 public:
  explicit Newcomer(TrainOptions options)
      : thread_([this, options = std::move(options)]() mutable {
          options.elastic.joined = true;
          try {
            Communicator comm = joinTraining(options.elastic.rendezvous_file, onLoopback());
            train(comm, options);
          } catch (const Error& error) {
            error_ = std::string(name(error.code())) + ": " + error.what();
          }
          ended_ = true;
        }) {}
  ~Newcomer() { end(); }

  void end() {
    if (thread_.joinable()) thread_.join();
  }
  bool ended() const { return ended_; }
  /// "": it trained to the end.
  const std::string& error() const { return error_; }

 private:
  std::string error_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

struct Joining {
  TrainOptions options;
  std::string error; ///< how the text of its error begins; "": it trains
};

/// Two ranks train until those that have to leave have left and the others are there.
void checkJoins(const TrainOptions& options, const std::vector<Joining>& joining) {
  std::vector<std::unique_ptr<Newcomer>> newcomers;
  int ranks = 2;
  for (const Joining& one : joining) {
    newcomers.push_back(std::make_unique<Newcomer>(one.options));
    if (one.error.empty()) ++ranks;
  }
  auto first = Communicator::createAll(2, onLoopback());
  const auto complaints = onRanks(first, [&](Communicator& comm) -> std::string {
    TrainOptions own = options;
    own.stop = [&] {
      for (std::size_t i = 0; i < joining.size(); ++i)
        if (!joining[i].error.empty() && !newcomers[i]->ended()) return false;
      return comm.size() == ranks;
    };
    std::vector<std::int64_t> steps, expected;
    const TrainReport report =
        train(comm, own, [&](const TrainProgress& now) { steps.push_back(now.total_step); });
    if (!report.stopped) return "the newcomers did not come";
    for (std::int64_t step = 1; step <= report.steps; ++step) expected.push_back(step);
    return steps == expected ? "" : "not every step was made once";
  });
  for (std::size_t i = 0; i < joining.size(); ++i) {
    newcomers[i]->end();
    INFO(newcomers[i]->error());
    CHECK(newcomers[i]->error().substr(0, joining[i].error.size()) == joining[i].error);
    CHECK(newcomers[i]->error().empty() == joining[i].error.empty());
  }
  CHECK(firstComplaint(complaints) == "");
}

} // namespace

// Proves: it gets its own error, and the others make every step once.
TEST_CASE("a newcomer with other options or without data leaves, and the others go on") {
  for (const char* strategy : {"ddp", "fsdp", "local"}) {
    INFO(strategy);
    const TemporaryFolder folder;
    TrainOptions options = elasticRun(strategy, folder);
    if (options.strategy == "fsdp") options.elastic.redundancy = 1;
    TrainOptions other = options, without_data = options;
    other.optimizer.learning_rate = 0.5;
    without_data.data = folder.file("");
    const std::string differs = "mismatch: ranks train differently: rank 0 has ";
    checkJoins(options, {{other, differs}});
    checkJoins(options, {{without_data, "data: "}, {options, ""}, {other, differs}});
  }
}

#endif

} // namespace rondo::test
