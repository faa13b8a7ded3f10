#include "support/runs.h"

#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {

bool contains(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

std::vector<Communicator> makeRanks(int ranks, const std::string& transport, bool deterministic) {
  Options options = plainOptions(transport);
  options.deterministic = deterministic;
  return Communicator::createAll(ranks, options);
}

TrainOptions smallRun() {
  TrainOptions options;
  options.data = "synthetic:shape=1x8x8,train=130,test=300";
  options.epochs = 2;
  options.batch = 40;
  return options;
}

TrainReport trainAll(std::vector<Communicator> ranks, const TrainOptions& options,
                     const std::function<void(const TrainProgress&)>& progress_of_0) {
  std::vector<TrainReport> reports(ranks.size());
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            reports[static_cast<std::size_t>(comm.rank())] = train(
                comm, options,
                comm.rank() == 0 ? progress_of_0 : std::function<void(const TrainProgress&)>());
            return {};
          })) == "");
  for (const TrainReport& report : reports) {
    requireSame(report, reports[0]);
    REQUIRE(report.steps == reports[0].steps);
    REQUIRE(report.stopped == reports[0].stopped);
    REQUIRE(report.test_accuracy == reports[0].test_accuracy);
    REQUIRE(report.seconds > 0);
  }
  return reports[0];
}

void requireSame(const TrainReport& a, const TrainReport& b) {
  REQUIRE(a.parameter_hash == b.parameter_hash);
  REQUIRE(a.epoch_loss == b.epoch_loss);
  REQUIRE(a.epoch_accuracy == b.epoch_accuracy);
}

Thrown thrownByAll(std::vector<Communicator>& ranks,
                   const std::function<void(Communicator&)>& body) {
  std::vector<Thrown> thrown(ranks.size());
  const auto complaints = onRanks(ranks, [&](Communicator& comm) -> std::string {
    try {
      body(comm);
    } catch (const Error& error) {
      thrown[static_cast<std::size_t>(comm.rank())] = {error.code(), error.what(), error.culprit()};
    }
    return {};
  });
  REQUIRE(firstComplaint(complaints) == "");
  for (std::size_t rank = 0; rank < thrown.size(); ++rank) {
    INFO("rank 0: " << thrown[0].text << "; rank " << rank << ": " << thrown[rank].text);
    REQUIRE(thrown[rank] == thrown[0]);
  }
  return thrown[0];
}

void requireRefused(std::vector<Communicator>& ranks, const TrainOptions& options,
                    const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    TrainOptions changed = options;
    change.make(changed);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, changed); });
    INFO(change.name << ": " << thrown.text);
    REQUIRE(thrown.code == ErrorCode::invalid_argument);
    REQUIRE(contains(thrown.text, change.name));
  }
}

} // namespace rondo::test
