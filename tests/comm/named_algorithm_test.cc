// Tests calls that name their algorithm.
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "comm/call.h"
#include "plan/registry.h"
#include "support/caught.h"
#include "support/collective_case.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// The call of a case, without buffers.
CollectiveCall callOf(const CollectiveCase& one) {
  return {.collective = one.collective,
          .count = one.count,
          .type = one.type,
          .op = one.op,
          .root = one.root};
}

/// Makes the case's call by this algorithm in each way: blocking, asynchronously, in a Group.
std::string callEachWay(Communicator& comm, const CollectiveCase& one,
                        const std::string& algorithm) {
  for (int way = 0; way < 3; ++way) {
    CollectiveBuffers buffers(one, comm.rank(), comm.size());
    CollectiveCall call = callOf(one);
    call.input = buffers.input();
    call.output = buffers.output();
    buffers.fill();
    if (way == 0) comm.call(call, algorithm);
    if (way == 1) comm.callAsync(call, algorithm).wait();
    if (way == 2) {
      Group group;
      comm.call(call, algorithm);
      comm.callAsync(call, algorithm);
      group.end();
    }
    if (auto wrong = buffers.wrong(); !wrong.empty())
      return one.text() + " by " + algorithm + ", way " + std::to_string(way) + ": " + wrong;
  }
  return "";
}

std::vector<Caught> onEach(std::vector<Communicator>& ranks,
                           const std::function<void(Communicator&)>& body) {
  std::vector<Caught> errors(ranks.size());
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    threads.emplace_back([&, r] { errors[r] = caught([&] { body(ranks[r]); }); });
  threads.clear();
  return errors;
}

CollectiveCall sumOf(std::vector<float>& data) {
  return {.collective = Collective::allreduce,
          .input = data.data(),
          .output = data.data(),
          .count = data.size(),
          .type = DataType::float32};
}

} // namespace

// Proves: each algorithm that supports a collective serves a call that names it, with the right
// result, also between calls that name another one or none.
TEST_CASE("a call is served by the algorithm that it names", "[named]") {
  for (const char* transport : {"shm", "tcp"})
    for (const int size : kRankCounts) {
      auto ranks = Communicator::createAll(size, plainOptions(transport));
      for (const Collective collective : kCollectives) {
        if (collective == Collective::sendrecv) continue;
        const plan::Spec spec{.collective = collective, .ranks = size};
        for (const plan::Algorithm* algorithm : plan::supporting(spec)) {
          const CollectiveCase one{.collective = collective, .count = 3, .root = size - 1};
          INFO(transport << ", " << size << " ranks, " << algorithm->name);
          CHECK(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
                  auto wrong = callEachWay(comm, one, std::string(algorithm->name));
                  return wrong.empty() ? one.run(comm) : wrong;
                })) == "");
        }
      }
    }
}

// Proves: the named algorithm runs, not the one of RONDO_ALGO: each of 8 ranks sends on two
// channels in a ring, and to all others by "direct".
TEST_CASE("the call's algorithm comes before RONDO_ALGO", "[named]") {
  for (const char* algorithms : {"", "direct", "^ring"}) {
    INFO(algorithms);
    auto ranks = Communicator::createAll(8, plainOptions("shm", algorithms));
    CHECK(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            std::vector<float> data(1000, 1.0F);
            comm.call(sumOf(data), "Ring");
            if (const auto channels = comm.memory().channels; channels != 2)
              return std::to_string(channels) + " channels after a ring";
            comm.call(sumOf(data), "direct");
            if (const auto channels = comm.memory().channels; channels < 7)
              return std::to_string(channels) + " channels after direct";
            return data[999] == 64 ? "" : "wrong sum";
          })) == "");
  }
}

// Proves: each kind of wrong name is refused by its own text before anything is sent, in a Group
// too; the communicator can be used afterwards.
TEST_CASE("a call refuses an algorithm that cannot serve it, and says why", "[named]") {
  Options options = plainOptions("shm");
  options.deterministic = true;
  auto ordered = Communicator::createAll(3, options);
  auto ranks = Communicator::createAll(3, plainOptions("shm"));
  Communicator& comm = ranks[0];
  std::vector<float> data(8, 1.0F);
  const CollectiveCall sum = sumOf(data);
  const auto error = [&](const std::string& name) {
    const Caught at_once = caught([&] { comm.call(sum, name); });
    const Caught later = caught([&] { comm.callAsync(sum, name); });
    const Caught held = caught([&] {
      Group group;
      comm.call(sum, name);
      group.end();
    });
    CHECK(later.text == at_once.text);
    CHECK(held.text == at_once.text);
    return at_once;
  };
  constexpr auto invalid_argument = ErrorCode::invalid_argument;
  constexpr auto unsupported = ErrorCode::unsupported;
  CHECK(says(error("rign"), invalid_argument, {"AllReduce: unknown algorithm 'rign'; valid: "}));
  CHECK(says(error(""), invalid_argument, {"AllReduce: an algorithm's name is missing"}));
  CHECK(says(error("ring,tree"), invalid_argument, {"'ring,tree'"}));
  CHECK(says(error("bruck"), invalid_argument, {"AllReduce: ", "bruck", "cannot do allreduce"}));
  CHECK(says(error("ring/2"), invalid_argument, {"AllReduce: ", "'ring/2'", "without"}));
  CHECK(says(error("parameter_server/4"), unsupported,
             {"AllReduce of 3 ranks: the call names algorithm 'parameter_server/4', which does not "
              "support it"}));
  CHECK(says(caught([&] { ordered[0].call(sum, "ring"); }), unsupported,
             {"'ring', which does not reduce in rank order"}));
  const CollectiveCall message{
      .collective = Collective::sendrecv, .output = data.data(), .count = 8, .root = 1};
  CHECK(
      says(caught([&] { comm.call(message, "ring"); }), invalid_argument, {"Recv: no algorithm"}));
  CHECK(says(caught([&] { comm.call({.collective = static_cast<Collective>(99)}, "ring"); }),
             invalid_argument, {"unknown collective 99"}));
  CHECK(firstComplaint(onRanks(ranks, [](Communicator& one) -> std::string {
          std::vector<float> own(8, 1.0F);
          one.call(sumOf(own), "ring");
          return own[7] == 3 ? "" : "wrong sum";
        })) == "");
}

// Proves: ranks that name different algorithms, parameters or none get a mismatch that names both
// calls; none waits for its timeout.
TEST_CASE("ranks that name different algorithms for a call get a mismatch", "[named]") {
  struct Row {
    const char *odd, *others, *text; ///< odd: what rank 1 names; empty: none
  };
  for (const char* transport : {"inproc", "shm", "tcp"})
    for (const int size : {2, 3, 4, 5, 7, 8})
      for (const Row& row :
           {Row{"tree", "ring", "AllReduce #1 (sum of 1000 float, algorithm tree)"},
            Row{"", "ring", "AllReduce #1 (sum of 1000 float)"},
            Row{"parameter_server", "parameter_server/1", "algorithm parameter_server"}}) {
        auto ranks = Communicator::createAll(size, plainOptions(transport));
        const auto begin = std::chrono::steady_clock::now();
        const auto errors = onEach(ranks, [&](Communicator& comm) {
          std::vector<float> data(1000, 1.0F);
          const std::string name = comm.rank() == 1 ? row.odd : row.others;
          if (name.empty()) comm.call(sumOf(data));
          else comm.call(sumOf(data), name);
          for (int i = 0; i < 3; ++i) comm.barrier(); // for ranks that needed no message of rank 1
        });
        INFO(transport << ", " << size << " ranks, " << row.odd << " and " << row.others);
        for (const Caught& error : errors)
          REQUIRE(says(error, ErrorCode::mismatch, {"rank 1", row.text}));
        // The timeout is a minute.
        REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds(40));
      }
}

// Proves: signatures of calls by different algorithms, parameters and counts differ, and their
// texts have no wrong count.
TEST_CASE("a signature says which algorithm the call names", "[named]") {
  std::set<std::uint64_t> signatures;
  std::size_t calls = 0;
  for (const char* name :
       {"", "ring", "tree", "parameter_server", "parameter_server/1", "parameter_server/2",
        "hierarchical(linear,ring)", "hierarchical(ring,linear)"})
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{1000}, (std::size_t{1} << 24) - 1,
          std::size_t{1} << 24, std::size_t{1} << 31, std::size_t{1} << 40}) {
      const CollectiveCall call{
          .collective = Collective::allreduce, .count = count, .type = DataType::float32};
      const plan::Choice choice = *name ? plan::parseChoice(name) : plan::Choice();
      const auto signature = comm::sign(call, *name ? &choice : nullptr);
      signatures.insert(signature);
      calls += 1;
      const std::string text = comm::describe(signature, 0);
      INFO(name << ", " << count << ": " << text);
      if (*name) CHECK(text.find("algorithm " + std::string(choice.algorithm->name)) != text.npos);
      const bool exact = *name && std::string(name) == choice.algorithm->name && count < 1 << 24;
      if (*name) CHECK((text.find(std::to_string(count) + " float") != text.npos) == exact);
    }
  CHECK(signatures.size() == calls);
  CHECK(plan::algorithms().size() <= 32); // a signature has 5 bits for the number
}

} // namespace rondo::test
