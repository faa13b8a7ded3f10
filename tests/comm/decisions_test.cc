// Tests communicators whose algorithms are chosen by the model, and explain().
#include <fstream>
#include <thread>

#include "base/log.h"
#include "base/processors.h"
#include "model/profile_file.h"
#include "planner/stored.h"
#include "support/caught.h"
#include "support/own_cache.h"
#include "support/ranks.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

Options byModel(const OwnCache& cache, const std::string& transports) {
  Options options = plainOptions(transports);
  options.planner = "model";
  options.log_level = LogLevel::info;
  options.log_file = cache.file("log");
  return options;
}

/// A profile on which one message costs a second, so that one round is best while a block fits into
/// a message. The rules would use two rounds for 80 kB.
std::string slowMessages() {
  model::Profile profile = model::defaultProfile();
  profile.name = "slow messages";
  for (auto& link : profile.links) link->alpha = 1;
  return model::profileText(profile);
}

std::string sums(Communicator& comm, std::size_t count) {
  std::vector<float> in(count, static_cast<float>(comm.rank() + 1)), out(count);
  comm.allReduce(in.data(), out.data(), count, DataType::float32, ReduceOp::sum);
  const auto right = static_cast<float>(comm.size() * (comm.size() + 1) / 2);
  for (const float value : out)
    if (value != right) return "wrong sum";
  return "";
}

} // namespace

// Proves: all ranks use rank 0's table, results are right, the reason is logged once, and the table
// is kept for the next communicator.
TEST_CASE("RONDO_PLANNER=model: rank 0's decisions hold on all ranks, and are kept",
          "[decisions]") {
  for (const int size : {2, 3, 5}) {
    const OwnCache cache;
    for (const int time : {1, 2}) {
      CAPTURE(size, time);
      auto ranks = Communicator::createAll(size, byModel(cache, "inproc"));
      const std::string first =
          ranks[0].algorithmFor(Collective::allreduce, 1000, DataType::float32);
      CHECK(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              if (comm.algorithmFor(Collective::allreduce, 1000, DataType::float32) != first)
                return "another algorithm";
              return sums(comm, 1000) + sums(comm, 1) + sums(comm, 200'000);
            })) == "");
      CHECK(cache.logged("AllReduce of 1000 float uses " + first + " (model)") == time);
      CHECK(cache.logged("decisions for profile") == 1);
      CHECK(cache.tables().size() == 1);
    }
  }
}

TEST_CASE("a damaged table is computed again, never an error", "[decisions]") {
  const OwnCache cache;
  Communicator::createAll(2, byModel(cache, "inproc"));
  REQUIRE(cache.tables().size() == 1);
  const std::string whole = readFile(cache.tables()[0]);
  std::ofstream(cache.tables()[0], std::ios::trunc) << whole.substr(0, whole.size() / 2);
  Communicator::createAll(2, byModel(cache, "inproc"));
  CHECK(readFile(cache.tables()[0]) == whole);
  CHECK(cache.logged("damaged or outdated") == 1);
}

TEST_CASE("the profile decides, and rank 0's settings count", "[decisions]") {
  const OwnCache cache;
  std::ofstream(cache.file("p.json")) << slowMessages();
  Options options = byModel(cache, "inproc");
  options.profile = cache.file("p.json");
  const Rendezvous meet = Rendezvous::inProcess(3);
  std::vector<std::future<Communicator>> making;
  for (int rank = 0; rank < 3; ++rank) {
    Options own = options;
    if (rank > 0) own.profile = "";
    if (rank == 2) own.planner = "rules";
    making.push_back(Communicator::createAsync(meet.as(rank), own));
  }
  std::vector<Communicator> ranks;
  for (auto& one : making) ranks.push_back(one.get());
  for (Communicator& comm : ranks)
    CHECK(comm.algorithmFor(Collective::allreduce, 20'000, DataType::float32) == "oneshot");
  CHECK(cache.logged("the link profiles of rank 0 and rank 1 differ") == 1);
  CHECK(firstComplaint(onRanks(ranks, [](Communicator& comm) { return sums(comm, 70'000); })) ==
        "");
}

TEST_CASE("a profile with a long name is used", "[decisions]") {
  const OwnCache cache;
  model::Profile profile = model::defaultProfile();
  profile.name = std::string(10'000, 'x');
  std::ofstream(cache.file("p.json")) << model::profileText(profile);
  Options options = byModel(cache, "inproc");
  options.profile = cache.file("p.json");
  auto ranks = Communicator::createAll(2, options);
  CHECK(firstComplaint(onRanks(ranks, [](Communicator& comm) { return sums(comm, 1000); })) == "");
  CHECK(cache.logged("differ") == 0);
}

TEST_CASE("a profile that is named and cannot be read is an error on all ranks", "[decisions]") {
  const OwnCache cache;
  std::ofstream(cache.file("p.json")) << "{\n\n  \"rondo_profile\": 7}";
  for (const int wrong : {0, 1}) {
    const Rendezvous meet = Rendezvous::inProcess(2);
    std::vector<std::future<Communicator>> making;
    for (int rank = 0; rank < 2; ++rank) {
      Options own = byModel(cache, "inproc");
      if (rank == wrong) own.profile = cache.file("p.json");
      making.push_back(Communicator::createAsync(meet.as(rank), own));
    }
    const std::string said =
        "rank " + std::to_string(wrong) + ": " + cache.file("p.json") + ":3: version 7 is not 1";
    for (auto& one : making)
      CHECK(says(caught([&] { one.get(); }), ErrorCode::data, {said.c_str()}));
  }
}

// Proves: an error does not name a variable that is not set.
TEST_CASE("an unknown algorithm is an error with the names of its variables", "[decisions]") {
  for (const auto& [algorithm, variables] :
       {std::pair{"rnig", "RONDO_ALGO (Options::algorithm) of rank 0"},
        std::pair{"?rnig", "RONDO_ALGO or NCCL_ALGO (Options::algorithm) of rank 0"}}) {
    Options options = plainOptions();
    options.algorithm = algorithm;
    CHECK(says(caught([&] { Communicator::createAll(2, options); }), ErrorCode::invalid_argument,
               {variables, "unknown algorithm 'rnig'"}));
  }
}

// Proves: explain() names what a call really uses, for each who may decide, with terms that add up.
TEST_CASE("explain() says what a call uses, who decided, and why", "[decisions]") {
  const OwnCache cache;
  for (const char* planner : {"model", "rules"})
    for (const char* algorithm : {"", "tree"}) {
      CAPTURE(planner, algorithm);
      Options options = byModel(cache, "inproc");
      options.planner = planner;
      options.algorithm = algorithm;
      auto ranks = Communicator::createAll(3, options);
      const CollectiveCall call{
          .collective = Collective::allreduce, .count = 1000, .type = DataType::float32};
      const Explanation made = ranks[1].explain(call);
      CHECK(made.algorithm == ranks[0].algorithmFor(Collective::allreduce, 1000, call.type));
      CHECK(made.decided_by == (*algorithm ? "RONDO_ALGO" : planner));
      REQUIRE(made.candidates.size() > 5);
      for (const Explanation::Candidate& one : made.candidates)
        CHECK(one.latency + one.bytes + one.reduction + one.contention == Approx(one.seconds));
      CHECK(made.why.find(made.algorithm) != std::string::npos);
      CHECK(made.network.starts_with("profile 'default', links inproc"));
    }
  auto ranks = Communicator::createAll(2, byModel(cache, "inproc"));
  CHECK(says(caught([&] { ranks[0].explain({.collective = Collective::sendrecv}); }),
             ErrorCode::invalid_argument, {"has no algorithm"}));
  CHECK(says(caught([&] { ranks[0].explain({.collective = Collective::broadcast, .root = 2}); }),
             ErrorCode::invalid_argument, {"root 2 is not a rank"}));
  CHECK(says(caught([&] {
               ranks[0].explain(
                   {.collective = Collective::allreduce, .type = static_cast<DataType>(200)});
             }),
             ErrorCode::invalid_argument, {"unknown data type 200"}));
  CHECK(
      says(caught([&] { ranks[0].algorithmFor(Collective::allreduce, SIZE_MAX, DataType::int8); }),
           ErrorCode::invalid_argument, {"exceeds the address space"}));
}

// Proves: two nodes of one machine, as containers are, do not get its processors twice.
TEST_CASE("explain() divides the processors of a machine among its nodes", "[decisions]") {
  const base::Processors own = base::ownProcessors();
  if (own.size() < 2) return;
  const Rendezvous meet = Rendezvous::inProcess(4);
  std::vector<std::future<Communicator>> making;
  std::thread([&] {
    base::bindThread({own[0], own[1]});
    for (int rank = 0; rank < 4; ++rank) {
      Options options = plainOptions("inproc,tcp");
      options.node = "node " + std::to_string(rank / 2);
      making.push_back(Communicator::createAsync(meet.as(rank), options));
    }
  }).join();
  std::vector<Communicator> ranks;
  for (auto& one : making) ranks.push_back(one.get());
  CHECK(ranks[0]
            .explain({.collective = Collective::barrier})
            .network.ends_with(", 1 processors a node"));
}

TEST_CASE("an unknown planner is refused with the valid ones", "[decisions]") {
  Options options = plainOptions("inproc");
  options.planner = "oracle";
  CHECK(says(caught([&] { options.validate(); }), ErrorCode::invalid_argument,
             {"RONDO_PLANNER", "unknown planner", "oracle", "valid: rules, model, measured"}));
}

} // namespace rondo::test
