// Tests communicators with a rules file: all ranks follow rank 0's, and refuse a damaged one.
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "planner/rules_file.h"
#include "support/caught.h"
#include "support/own_cache.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

Options withRules(const OwnCache& cache, const std::string& file, const std::string& text) {
  std::ofstream(cache.file(file)) << text;
  Options options = plainOptions("inproc");
  options.rules_file = cache.file(file);
  options.log_level = LogLevel::info;
  options.log_file = cache.file("log");
  return options;
}

std::vector<std::future<Communicator>> making(const std::vector<Options>& options) {
  const Rendezvous meet = Rendezvous::inProcess(static_cast<int>(options.size()));
  std::vector<std::future<Communicator>> all;
  for (const Options& one : options)
    all.push_back(Communicator::createAsync(meet.as(static_cast<int>(all.size())), one));
  return all;
}

/// The algorithm for an AllReduce of this many floats, if a call also gives the right sums.
std::string algorithmOf(Communicator& comm, std::size_t count) {
  std::vector<float> sums(count, static_cast<float>(comm.rank() + 1));
  comm.allReduce(sums, ReduceOp::sum);
  const int right = comm.size() * (comm.size() + 1) / 2;
  if (sums != std::vector<float>(count, static_cast<float>(right))) return "wrong sum";
  return comm.algorithmFor(Collective::allreduce, count, DataType::float32);
}

/// Name of the algorithm of an AllReduce of 1000 floats on 3 ranks without a rules file.
std::string usual(Options options) {
  options.rules_file.clear();
  return Communicator::createAll(3, options)[0].algorithmFor(Collective::allreduce, 1000,
                                                             DataType::float32);
}

/// Whether all ranks use this algorithm for 1000 floats.
bool allUse(std::vector<Communicator>& ranks, const std::string& algorithm) {
  const auto complaint = firstComplaint(onRanks(ranks, [&](Communicator& comm) {
    const std::string used = algorithmOf(comm, 1000);
    return used == algorithm ? "" : "uses " + used;
  }));
  UNSCOPED_INFO(complaint);
  return complaint.empty();
}

} // namespace

// Proves: the other ranks' files have no effect, even if they are missing or damaged.
TEST_CASE("ranks with different rules files all follow rank 0's", "[rules]") {
  const OwnCache cache;
  const std::string ring = "collective,algorithm\nallreduce,ring\n";
  const Options first = withRules(cache, "first.csv", ring);
  const Options other = withRules(cache, "other.csv", "collective,algorithm\nallreduce,tree\n");
  const Options damaged = withRules(cache, "damaged.csv", "collective,algorithm\nrubbish\n");
  Options missing = first, none = first;
  missing.rules_file = cache.file("missing.csv");
  none.rules_file.clear();
  const std::string rules = usual(first);
  for (const auto& [options, wanted] :
       {std::pair{std::vector{first, other, damaged, missing, none}, std::string("ring")},
        std::pair{std::vector{other, first, none}, std::string("tree")},
        std::pair{std::vector{none, first, damaged}, rules}}) {
    std::vector<Communicator> ranks;
    for (auto& one : making(options)) ranks.push_back(one.get());
    CHECK(allUse(ranks, wanted));
  }
  CHECK(cache.logged("AllReduce of 1000 float uses ring (rules file " + first.rules_file +
                     ":2)\n") == 1);
  CHECK(cache.logged("AllReduce of 1000 float uses tree (rules file " + other.rules_file +
                     ":2)\n") == 1);
  CHECK(cache.logged("AllReduce of 1000 float uses " + rules + " (rules)\n") == 1);
}

TEST_CASE("rank 0's damaged or missing rules file is the same error on all ranks", "[rules]") {
  const OwnCache cache;
  const Options damaged =
      withRules(cache, "damaged.csv", "collective,algorithm\n\nallreduce,rnig\n");
  const Options good = withRules(cache, "good.csv", "collective,algorithm\n");
  Options missing = good;
  missing.rules_file = cache.file("missing.csv");
  for (const auto& [bad, reason] :
       {std::pair{damaged, ":3: unknown algorithm 'rnig'; valid: "},
        std::pair{missing, ": the rules file cannot be read: No such file or directory"}}) {
    const std::string text = "rank 0: " + bad.rules_file + reason;
    for (auto& one : making({bad, good, good})) {
      const Caught error = caught([&, &one = one] { one.get(); });
      CHECK(says(error, ErrorCode::data, {text.c_str()}));
    }
  }
}

TEST_CASE("a rules file of the largest size reaches ranks over sockets", "[rules]") {
  const OwnCache cache;
  const std::string columns = "collective,max_bytes,algorithm\n", last = "allreduce,,ring\n";
  std::string text = columns;
  while (text.size() + last.size() < planner::RulesFile::kMostBytes) text += "\n";
  Options options = withRules(cache, "large.csv", text + last);
  REQUIRE(std::filesystem::file_size(options.rules_file) == planner::RulesFile::kMostBytes);
  options.transports = "tcp";
  auto ranks = ranksOverSockets(3, options);
  CHECK(allUse(ranks, "ring"));
}

// Proves: a communicator's rules do not change when the file changes, nor with another rank 0, and
// newcomers follow them.
TEST_CASE("communicators made by split() and grow() have the rules of the old one", "[rules]") {
  const OwnCache cache;
  Options first = withRules(cache, "r.csv", "collective,ranks,algorithm\nallreduce,2-4,tree\n");
  first.transports = "tcp";
  first.socket_interface = "lo";
  Options other = first;
  other.rules_file = cache.file("missing.csv");
  std::vector<Communicator> ranks;
  for (auto& one : making({first, other, other})) ranks.push_back(one.get());
  std::filesystem::remove(first.rules_file);
  const auto follows = [](Communicator comm) -> std::string {
    const std::string used = algorithmOf(comm, 1000);
    return used == "tree" ? "" : "uses " + used;
  };
  CHECK(firstComplaint(onRanks(ranks, [&](Communicator& comm) {
          return follows(comm.split(0, -comm.rank()).value());
        })) == "");
  const UniqueId id = UniqueId::create(other);
  auto newcomer =
      std::async(std::launch::async, [&] { return follows(Communicator::join(id, other)); });
  CHECK(firstComplaint(onRanks(ranks, [&](Communicator& comm) {
          return follows(comm.rank() == 2 ? comm.grow(1, id) : comm.grow(1));
        })) == "");
  CHECK(newcomer.get() == "");
  id.withdraw();
}

TEST_CASE("what a rules file decides is not measured", "[rules]") {
  const OwnCache cache;
  Options options =
      withRules(cache, "r.csv", "collective,max_bytes,algorithm\nallreduce,8K,tree\n");
  options.planner = "measured";
  auto ranks = Communicator::createAll(3, options);
  CHECK(allUse(ranks, "tree"));
  const CollectiveCall small{
      .collective = Collective::allreduce, .count = 1000, .type = DataType::float32};
  const Explanation made = ranks[1].explain(small);
  CHECK(made.decided_by == "rules file " + options.rules_file + ":2");
  for (const Explanation::Candidate& one : made.candidates) CHECK(one.measured == 0);
  CHECK(firstComplaint(onRanks(ranks, [](Communicator& comm) {
          return algorithmOf(comm, 20'000) == "wrong sum" ? "wrong sum" : "";
        })) == "");
  CHECK(cache.logged("AllReduce of 20000 float uses ") == 1);
  CHECK(cache.logged(" (measurement)\n") == 1);
}

TEST_CASE("a line that cannot be followed is named in the log of the shape, once", "[rules]") {
  const OwnCache cache;
  Options options =
      withRules(cache, "r.csv", "collective,algorithm\nallreduce,ring\nallreduce,ring\n");
  options.deterministic = true;
  auto ranks = Communicator::createAll(3, options);
  const std::string rules = usual(options);
  CHECK(allUse(ranks, rules));
  CHECK(allUse(ranks, rules));
  const std::string why = " does not reduce in rank order, as deterministic mode demands";
  CHECK(cache.logged("AllReduce of 1000 float uses " + rules +
                     " (rules); passed over: " + options.rules_file + ":2: ring" + why + "; " +
                     options.rules_file + ":3: ring" + why + "\n") == 1);
}

} // namespace rondo::test
