// Callbacks: every call has one begin and one end, with what the program asked for.
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rondo/callbacks.h"
#include "rondo/communicator.h"
#include "rondo/error.h"
#include "support/collective_case.h"
#include "support/ranks.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

/// An event with texts of its own.
struct Heard {
  explicit Heard(const CallEvent& event, bool at_end)
      : call(event), title(event.title), algorithm(event.algorithm), end(at_end) {
    call.title = call.algorithm = {};
  }
  CallEvent call;
  std::string title, algorithm;
  bool end;
};

/// Keeps all events. Callbacks of several ranks run at the same time.
class Listener {
 public:
  CallCallbacks callbacks() {
    return {[this](const CallEvent& call) { add(Heard(call, false)); },
            [this](const CallEvent& call) { add(Heard(call, true)); }};
  }
  std::vector<Heard> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(all_, {});
  }

 private:
  void add(Heard heard) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(heard));
  }
  std::mutex mutex_;
  std::vector<Heard> all_;
};

/// The pairs of begin and end, by rank; fails the test if an event has no partner, or another one.
std::map<int, std::vector<Heard>> pairsOf(const std::vector<Heard>& all) {
  std::map<std::tuple<std::uint64_t, int, std::uint64_t>, Heard> open;
  std::map<int, std::vector<Heard>> ended;
  for (const Heard& one : all) {
    const std::tuple key(one.call.communicator, one.call.rank, one.call.number);
    if (!one.end) {
      REQUIRE(open.emplace(key, one).second);
      continue;
    }
    const auto begin = open.find(key);
    REQUIRE(begin != open.end());
    const CallEvent& first = begin->second.call;
    REQUIRE(first.sequence == one.call.sequence);
    REQUIRE(first.collective == one.call.collective);
    REQUIRE(first.count == one.call.count);
    REQUIRE(first.root == one.call.root);
    REQUIRE(begin->second.title == one.title);
    REQUIRE(begin->second.algorithm == one.algorithm);
    REQUIRE(first.time <= one.call.time);
    REQUIRE_FALSE(first.failed);
    ended[one.call.rank].push_back(one);
    open.erase(begin);
  }
  REQUIRE(open.empty());
  return ended;
}

TEST_CASE("callbacks: every collective, blocking, asynchronous and grouped, has its events") {
  Listener listener;
  const CallRegistration registration = onCalls(listener.callbacks());
  for (const int size : {1, 2, 3}) {
    auto ranks = Communicator::createAll(size, plainOptions());
    std::uint64_t number = 0;
    for (const Collective collective : kCollectives) {
      if (collective == Collective::sendrecv) continue;
      for (const bool async : {false, true})
        for (const bool group : {false, true}) {
          const CollectiveCase call{.collective = collective,
                                    .count = collective == Collective::barrier ? 0u : 5u,
                                    .type = DataType::int32,
                                    .op = ReduceOp::max,
                                    .root = size - 1,
                                    .async = async};
          INFO(call.text() << " on " << size << " ranks" << (group ? ", in a group" : ""));
          const auto complaints = onRanks(ranks, [&](Communicator& comm) -> std::string {
            if (!group) return call.run(comm);
            CollectiveBuffers buffers(call, comm.rank(), comm.size());
            buffers.fill();
            Group together;
            call.start(comm, buffers.input(), buffers.output());
            together.end();
            return buffers.wrong();
          });
          REQUIRE(firstComplaint(complaints).empty());
          ++number;
          const auto pairs = pairsOf(listener.take());
          REQUIRE(static_cast<int>(pairs.size()) == size);
          for (const auto& [rank, events] : pairs) {
            REQUIRE(events.size() == 1);
            const CallEvent& event = events[0].call;
            CHECK(event.size == size);
            CHECK(event.number == number);
            CHECK(event.sequence == number);
            CHECK(event.collective == collective);
            CHECK(events[0].title == traits(collective).title);
            CHECK_FALSE(event.failed);
            if (collective == Collective::barrier) continue;
            CHECK(event.count == 5);
            CHECK(event.bytes == 20);
            CHECK(event.type == DataType::int32);
            CHECK(event.root == (hasRoot(collective) ? size - 1 : -1));
            if (reduces(collective)) CHECK(event.op == ReduceOp::Kind::max);
            CHECK(events[0].algorithm == ranks[0].algorithmFor(collective, 5, DataType::int32));
          }
        }
    }
  }
}

TEST_CASE("callbacks: Send, Recv and v-forms say what they are") {
  Listener listener;
  const CallRegistration registration = onCalls(listener.callbacks());
  auto ranks = Communicator::createAll(2, plainOptions());
  const auto complaints = onRanks(ranks, [](Communicator& comm) -> std::string {
    std::vector<float> data(7);
    if (comm.rank() == 0) comm.send(data.data(), 7, DataType::float32, 1);
    else comm.recv(data.data(), 7, DataType::float32, 0);
    const std::vector<std::size_t> counts{3, 4}, offsets{0, 3};
    const std::vector<float> own(comm.rank() == 0 ? 3 : 4);
    comm.allGatherv(own.data(), own.size(), data.data(), {counts, offsets}, DataType::float32);
    return {};
  });
  REQUIRE(firstComplaint(complaints).empty());
  auto pairs = pairsOf(listener.take());
  for (const int rank : {0, 1}) {
    REQUIRE(pairs[rank].size() == 2);
    CHECK(pairs[rank][0].title == (rank == 0 ? "Send" : "Recv"));
    CHECK(pairs[rank][0].call.sending == (rank == 0));
    CHECK(pairs[rank][0].call.root == 1 - rank);
    CHECK(pairs[rank][0].call.bytes == 28);
    CHECK(pairs[rank][0].algorithm.empty());
    CHECK(pairs[rank][1].title == "AllGatherv");
    CHECK(pairs[rank][1].call.uneven);
    CHECK(pairs[rank][1].call.count == 7);
  }
}

TEST_CASE("callbacks: calls that overlap end in any order, and each has its own end") {
  Listener listener;
  const CallRegistration registration = onCalls(listener.callbacks());
  auto ranks = Communicator::createAll(2, plainOptions());
  constexpr int kCalls = 3000; // more than the record keeps
  const auto complaints = onRanks(ranks, [](Communicator& comm) -> std::string {
    std::vector<int> data(kCalls, comm.rank());
    std::vector<Work> works;
    for (int i = 0; i < kCalls; ++i)
      works.push_back(
          comm.rank() == 0
              ? comm.sendAsync(&data[static_cast<std::size_t>(i)], 1, DataType::int32, 1)
              : comm.recvAsync(&data[static_cast<std::size_t>(i)], 1, DataType::int32, 0));
    for (Work& work : works) work.wait();
    return {};
  });
  REQUIRE(firstComplaint(complaints).empty());
  auto pairs = pairsOf(listener.take());
  for (const int rank : {0, 1}) CHECK(pairs[rank].size() == kCalls);
}

TEST_CASE("callbacks: a call that fails ends as failed, one that is refused has no event") {
  Listener listener;
  const CallRegistration registration = onCalls(listener.callbacks());
  auto ranks = Communicator::createAll(2, plainOptions());
  CHECK_THROWS_AS(ranks[0].allReduce(nullptr, nullptr, 3, DataType::float32, ReduceOp::sum), Error);
  CHECK(listener.take().empty());
  const auto complaints = onRanks(ranks, [](Communicator& comm) -> std::string {
    std::vector<float> data(4);
    try {
      comm.allReduce(data.data(), data.data(), comm.rank() == 0 ? 3 : 4, DataType::float32,
                     ReduceOp::sum);
    } catch (const Error& error) {
      return error.code() == ErrorCode::mismatch ? "" : error.what();
    }
    return "no error";
  });
  REQUIRE(firstComplaint(complaints).empty());
  auto pairs = pairsOf(listener.take());
  for (const int rank : {0, 1}) {
    REQUIRE(pairs[rank].size() == 1);
    CHECK(pairs[rank][0].call.failed);
  }
}

TEST_CASE(
    "callbacks: registered for communicators that are opened later, in order, until removed") {
  auto before = Communicator::createAll(1, plainOptions());
  std::string order;
  CallRegistration first = onCalls({[&](const CallEvent&) { order += "1"; }, {}});
  CallRegistration second =
      onCalls({[&](const CallEvent&) { order += "2"; }, [&](const CallEvent&) { order += "e"; }});
  before[0].barrier();
  CHECK(order.empty());
  auto ranks = Communicator::createAll(1, plainOptions());
  ranks[0].barrier();
  CHECK(order == "12e");
  auto part = ranks[0].split(0, 0);
  part->barrier();
  CHECK(order == "12e12e");
  first = {};
  ranks[0].barrier();
  CHECK(order == "12e12e2e");
  const CallRegistration moved = std::move(second);
  ranks[0].barrier();
  CHECK(order == "12e12e2e2e");
  { const CallRegistration ends = std::move(const_cast<CallRegistration&>(moved)); }
  ranks[0].barrier();
  CHECK(order == "12e12e2e2e");
}

TEST_CASE("callbacks: one that throws is logged and dropped, the others and the call go on") {
  const TemporaryFolder folder;
  Options options = plainOptions();
  options.log_level = LogLevel::error;
  options.log_file = folder.file("log");
  int begins = 0, ends = 0, others = 0;
  const CallRegistration throws = onCalls({[&](const CallEvent&) {
                                             ++begins;
                                             throw std::runtime_error("a fault of the tool");
                                           },
                                           [&](const CallEvent&) { ++ends; }});
  const CallRegistration other = onCalls({[&](const CallEvent&) { ++others; }, {}});
  auto ranks = Communicator::createAll(1, options);
  for (int i = 0; i < 3; ++i) ranks[0].barrier();
  CHECK(begins == 1);
  CHECK(ends == 3);
  CHECK(others == 3);
  const std::string log = readFile(folder.file("log"));
  CHECK(countOf(log, "a callback at the begin of calls threw") == 1);
  CHECK(log.find("a fault of the tool") != std::string::npos);
  Communicator::createAll(1, plainOptions()); // the log as it was
}

TEST_CASE("callbacks: one may remove itself, and removal waits for those that run") {
  int calls = 0;
  CallRegistration self;
  self = onCalls({[&](const CallEvent&) {
                    ++calls;
                    self = {};
                  },
                  {}});
  auto alone = Communicator::createAll(1, plainOptions());
  for (int i = 0; i < 3; ++i) alone[0].barrier();
  CHECK(calls == 1);

  std::atomic<bool> removed{false}, late{false};
  CallRegistration busy = onCalls({[&](const CallEvent&) { late = late || removed.load(); }, {}});
  auto ranks = Communicator::createAll(2, plainOptions());
  const auto complaints = onRanks(ranks, [&](Communicator& comm) -> std::string {
    for (int i = 0; i < 2000; ++i) {
      comm.barrier();
      if (i != 1000 || comm.rank() != 0) continue;
      busy = {};
      removed = true;
    }
    return {};
  });
  REQUIRE(firstComplaint(complaints).empty());
  CHECK_FALSE(late);
}

} // namespace
} // namespace rondo::test
