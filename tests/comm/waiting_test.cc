// Tests waits that depend on each other: in callbacks, and for whichever of several calls ends
// first.
#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "rondo/detail/shims.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

constexpr auto i32 = DataType::int32;

Options endingAfter(std::chrono::milliseconds timeout, const char* transport = "shm") {
  Options options = plainOptions(transport);
  options.timeout = timeout;
  return options;
}

} // namespace

// Proves: the poll function of whileWaiting() may itself wait for a call and for a future of the
// same communicator. Its own wait does not call it again.
TEST_CASE("a callback of a waiting thread may wait itself") {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    INFO(transport);
    auto ranks = Communicator::createAll(2, endingAfter(60s, transport));
    std::atomic<bool> in_callback{false};
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              std::int32_t x = 7;
              if (comm.rank() == 1) {
                for (int i = 0; i < 30'000 && !in_callback; ++i) std::this_thread::sleep_for(1ms);
                auto told = comm.exchangeAsync({});
                comm.send(&x, 1, i32, 0);
                told.get();
                comm.barrier();
                return {};
              }
              std::int32_t y = 0;
              int depth = 0, deepest = 0, calls = 0;
              auto told = comm.exchangeAsync({});
              Work received = comm.recvAsync(&y, 1, i32, 1);
              detail::Shims::whileWaiting(comm, [&] {
                in_callback = true;
                deepest = std::max(deepest, ++depth);
                if (++calls == 1) told.get();
                received.wait();
                --depth;
              });
              comm.barrier();
              detail::Shims::whileWaiting(comm, {});
              if (calls == 0) return "the callback was not called";
              return deepest == 1 && y == 7 ? "" : "deepest " + std::to_string(deepest);
            })) == "");
  }
}

TEST_CASE("a callback's wait ends at the deadline, with an error in both waits") {
  auto ranks = Communicator::createAll(2, endingAfter(60s));
  std::int32_t y = 0;
  ErrorCode inner{};
  Work received = ranks[0].recvAsync(&y, 1, i32, 1);
  detail::Shims::whileWaiting(ranks[0], [&] {
    try {
      ranks[0].setTimeout(300ms); // not before: a busy machine may call this late
      received.wait();
    } catch (const Error& error) {
      inner = error.code();
    }
  });
  ErrorCode outer{};
  try {
    ranks[0].barrier();
  } catch (const Error& error) {
    outer = error.code();
  }
  CHECK(inner == ErrorCode::timeout);
  CHECK(outer == ErrorCode::timeout);
}

// Proves: a call's only deadline is the timeout that is set when it waits, also while its channels
// are being opened. By its options, opening may take 2.1 s here.
TEST_CASE("the first call waits for a late peer as long as setTimeout() says") {
  std::vector<Communicator> ranks;
  for (const char* transport : {"shm", "tcp"}) {
    Options options = endingAfter(100ms, transport);
    options.init_timeout = 2s;
    for (Communicator& one : Communicator::createAll(2, options)) ranks.push_back(std::move(one));
  }
  for (Communicator& one : ranks) one.setTimeout(60s);
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            if (comm.rank() == 1) std::this_thread::sleep_for(2500ms);
            std::int32_t x = 1, sum = 0;
            comm.allReduce(&x, &sum, 1, i32, ReduceOp::sum);
            return sum == 2 ? "" : "not the sum";
          })) == "");
}

// Proves: waitAny() returns the first call that ends, and delays none of the others.
TEST_CASE("waitAny gives the call that ends while another one goes on") {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    INFO(transport);
    auto ranks = Communicator::createAll(2, endingAfter(60s, transport));
    REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
              std::int32_t x = 1, y = 0, sum = 0;
              if (comm.rank() == 1) {
                std::this_thread::sleep_for(50ms);
                comm.allReduce(&x, &sum, 1, i32, ReduceOp::sum);
                comm.barrier(); // rank 0 has seen the sum
                comm.send(&x, 1, i32, 0);
                return {};
              }
              const std::atomic<bool> never{false};
              const Work works[] = {comm.recvAsync(&y, 1, i32, 1),
                                    comm.allReduceAsync(&x, &sum, 1, i32, ReduceOp::sum)};
              if (Work::waitAny(works, never) != 1 || sum != 2) return "not the sum";
              comm.barrier();
              if (Work::waitAny(std::span(works).first(1), never) != 0 || y != 1)
                return "no message";
              return Work::waitAny(works, never) == 0 ? "" : "not the first of those that ended";
            })) == "");
  }
}

TEST_CASE(
    "waitAny of no calls returns at once; with unfinished calls it returns when it is told to "
    "stop") {
  auto ranks = Communicator::createAll(2, endingAfter(60s));
  std::atomic<bool> stop{false};
  CHECK(!Work::waitAny({}, stop).has_value());
  std::int32_t x = 0;
  const Work work = ranks[0].recvAsync(&x, 1, i32, 1);
  auto waited = std::async(std::launch::async, [&] { return Work::waitAny({&work, 1}, stop); });
  CHECK(waited.wait_for(50ms) == std::future_status::timeout);
  stop = true;
  CHECK(!waited.get().has_value());
  const std::int32_t y = 0;
  ranks[1].send(&y, 1, i32, 0);
  CHECK(Work::waitAny({&work, 1}, stop) == 0);

  Group group; // no call in it ends before the group does
  const Work held = ranks[0].recvAsync(&x, 1, i32, 1);
  CHECK(Work::waitAny({&held, 1}, stop) == 0);
  group.drop();
}

} // namespace rondo::test
