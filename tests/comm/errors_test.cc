// Tests that every wrong call ends in a typed error that names what was wrong, on the right ranks.
#include <array>
#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "bootstrap/call_log.h"
#include "comm/call.h"
#include "comm/record.h"
#include "rondo/detail/shims.h"
#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// Runs one call per rank and returns each one's error.
std::vector<Caught> onAll(std::vector<Communicator>& ranks,
                          const std::function<void(Communicator&)>& body) {
  std::vector<Caught> errors(ranks.size());
  onRanks(ranks, [&](Communicator& comm) -> std::string {
    Caught& error = errors[static_cast<std::size_t>(comm.rank())]; // the body may drop it
    error = caught([&] { body(comm); });
    return {};
  });
  return errors;
}

} // namespace

TEST_CASE("wrong arguments are refused by name, and the communicator goes on") {
  auto ranks = Communicator::createAll(2, plainOptions());
  Communicator& comm = ranks[0];
  std::vector<float> a(64), b(64);
  const auto bad = ErrorCode::invalid_argument;
  const auto sum = ReduceOp::sum;
  const auto f32 = DataType::float32;

  CHECK(says(caught([&] { comm.broadcast(a.data(), b.data(), 1, f32, 2); }), bad,
             {"Broadcast", "root 2", "0 to 1"}));
  CHECK(says(caught([&] { comm.reduce(a.data(), b.data(), 1, f32, sum, -1); }), bad, {"root -1"}));
  CHECK(says(caught([&] { comm.send(a.data(), 1, f32, 7); }), bad, {"Send", "peer 7"}));
  CHECK(says(caught([&] { comm.allReduce(nullptr, b.data(), 3, f32, sum); }), bad,
             {"AllReduce", "input is null", "3"}));
  CHECK(says(caught([&] { comm.allReduce(a.data(), nullptr, 3, f32, sum); }), bad,
             {"output is null"}));
  CHECK(says(caught([&] { comm.allReduce(a.data(), b.data(), 1, static_cast<DataType>(99), sum); }),
             bad, {"data type 99"}));
  CHECK(says(caught([&] { comm.allReduce(a.data(), b.data(), 1, f32, ReduceOp::bxor); }), bad,
             {"bxor", "not defined on float"}));
  CHECK(says(caught([&] { comm.allReduce(a.data(), b.data(), ~std::size_t{0}, f32, sum); }), bad,
             {"count", "address space"}));
  CHECK(
      says(caught([&] { comm.allReduce(a.data(), a.data() + 1, 8, f32, sum); }), bad, {"overlap"}));
  CHECK(says(caught([&] { comm.allToAll(a.data(), a.data(), 8, f32); }), bad,
             {"AllToAll", "in place"}));
  CHECK(says(
      caught([&] { comm.call({.collective = static_cast<Collective>(77), .input = a.data()}); }),
      bad, {"unknown collective 77"}));
  CHECK(says(caught([&] { comm.algorithmFor(static_cast<Collective>(77), 1, f32); }), bad,
             {"unknown collective 77"}));
  CHECK(says(caught([&] { comm.transportTo(2); }), bad, {"2"}));
  CHECK(says(caught([&] { comm.recvAsync(nullptr, 1, f32, 1); }), bad, {"Recv"}));

  // Nothing was sent, so the next call works.
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& one) -> std::string {
            float x = 1, y = 0;
            one.allReduce(&x, &y, 1, DataType::float32, ReduceOp::sum);
            return y == 2 ? "" : "wrong sum";
          })) == "");
}

// Proves: a known shape of call does not skip the check of the buffers.
TEST_CASE("a call like one that went well is refused when its buffers are wrong") {
  auto ranks = Communicator::createAll(2, plainOptions());
  constexpr std::size_t kCount = 8;
  constexpr auto kType = DataType::float32;
  const auto good = [](Communicator& comm, bool in_place) -> std::string {
    std::vector<float> in(kCount, 1.0f), out(kCount), all(2 * kCount, 1.0f);
    float* const own = all.data() + static_cast<std::size_t>(comm.rank()) * kCount;
    comm.allReduce(in.data(), in_place ? in.data() : out.data(), kCount, kType, ReduceOp::sum);
    comm.allGather(in_place ? own : in.data(), all.data(), kCount, kType);
    return (in_place ? in : out)[kCount - 1] == 2.0f ? "" : "wrong sum";
  };
  for (const bool in_place : {false, true})
    REQUIRE(firstComplaint(
                onRanks(ranks, [&](Communicator& comm) { return good(comm, in_place); })) == "");

  Communicator& comm = ranks[0];
  std::vector<float> a(64), b(64);
  const auto bad = ErrorCode::invalid_argument;
  const auto reduce = [&](const float* in, float* out) {
    return caught([&] { comm.allReduce(in, out, kCount, kType, ReduceOp::sum); });
  };
  CHECK(says(reduce(nullptr, b.data()), bad, {"AllReduce", "input is null"}));
  CHECK(says(reduce(a.data(), nullptr), bad, {"output is null"}));
  CHECK(says(reduce(a.data(), a.data() + 1), bad, {"overlap"}));
  CHECK(says(reduce(a.data() + 1, a.data()), bad, {"overlap"}));
  CHECK(says(caught([&] { comm.allGather(a.data() + kCount, a.data(), kCount, kType); }), bad,
             {"AllGather", "overlap, but not in place"}));

  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& one) { return good(one, false); })) ==
          "");
  ranks[1].abort("enough");
  CHECK(says(reduce(a.data(), a.data() + 1), bad, {"overlap"}));
  CHECK(says(reduce(a.data(), b.data()), ErrorCode::aborted, {"enough"}));
}

TEST_CASE("a null buffer is valid if there is nothing to read or write") {
  auto ranks = Communicator::createAll(3, plainOptions());
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            std::vector<float> data(3, 1.0f);
            const bool root = comm.rank() == 1;
            comm.allReduce(nullptr, nullptr, 0, DataType::float32, ReduceOp::sum);
            comm.reduce(data.data(), root ? data.data() : nullptr, 3, DataType::float32,
                        ReduceOp::sum, 1);
            comm.broadcast(root ? data.data() : nullptr, data.data(), 3, DataType::float32, 1);
            float one = 0;
            comm.scatter(root ? data.data() : nullptr, &one, 1, DataType::float32, 1);
            return one == 3.0f ? "" : "wrong value";
          })) == "");
}

TEST_CASE("different calls are a mismatch on every rank, with both calls named") {
  struct Row {
    const char* what;
    std::function<void(Communicator&, float*, float*)> odd; ///< what rank 1 calls
  };
  const std::vector<Row> rows = {
      {"count", [](Communicator& c, float* x,
                   float* y) { c.allReduce(x, y, 33, DataType::float32, ReduceOp::sum); }},
      {"a count that chooses another algorithm",
       [](Communicator& c, float* x, float* y) {
         c.allReduce(x, y, 60'000, DataType::float32, ReduceOp::sum);
       }},
      {"type", [](Communicator& c, float* x,
                  float* y) { c.allReduce(x, y, 32, DataType::int32, ReduceOp::sum); }},
      {"operator", [](Communicator& c, float* x,
                      float* y) { c.allReduce(x, y, 32, DataType::float32, ReduceOp::max); }},
      {"collective",
       [](Communicator& c, float* x, float* y) { c.broadcast(x, y, 32, DataType::float32, 0); }},
      {"barrier", [](Communicator& c, float*, float*) { c.barrier(); }},
  };
  for (const char* transport : {"inproc", "tcp"})
    for (int size : {2, 3, 5})
      for (const Row& row : rows) {
        auto ranks = Communicator::createAll(size, plainOptions(transport));
        const auto begin = std::chrono::steady_clock::now();
        const auto errors = onAll(ranks, [&](Communicator& comm) {
          std::vector<float> x(60'000), y(60'000);
          if (comm.rank() == 1) row.odd(comm, x.data(), y.data());
          else comm.allReduce(x.data(), y.data(), 32, DataType::float32, ReduceOp::sum);
          // A rank that needed no message from the odd rank gets the error in a later call.
          for (int i = 0; i < 3; ++i)
            comm.allReduce(x.data(), y.data(), 1, DataType::float32, ReduceOp::sum);
        });
        INFO(row.what << " on " << transport << ", " << size << " ranks: " << errors[0].text);
        for (const Caught& error : errors)
          REQUIRE(says(error, ErrorCode::mismatch, {"#", "rank 1"}));
        REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
      }
}

TEST_CASE("a root that differs is a mismatch that names both calls on every rank") {
  for (const char* transport : {"inproc", "tcp"})
    for (const std::size_t count : {100, 100'000}) {
      auto ranks = Communicator::createAll(4, plainOptions(transport));
      const auto errors = onAll(ranks, [count](Communicator& comm) {
        std::vector<float> x(100'000);
        comm.broadcast(x.data(), x.data(), count, DataType::float32, comm.rank() == 2 ? 2 : 0);
        // Not every rank needs a message from the odd rank, in this call or in the next.
        for (int i = 0; i < 3; ++i) comm.barrier();
        comm.allReduce(x.data(), x.data(), 10, DataType::float32, ReduceOp::sum);
      });
      INFO(transport << ", " << count);
      const std::string call = "Broadcast #1 (" + std::to_string(count) + " float, root ";
      for (const Caught& error : errors) {
        INFO(error.text);
        // Which of the two is the odd one depends on how many ranks have called so far.
        REQUIRE(says(error, ErrorCode::mismatch,
                     {"rank 2 calls ", (call + "2)").c_str(), (call + "0)").c_str()}));
        REQUIRE(error.text == errors[0].text);
      }
    }
}

TEST_CASE("a barrier made by call() ignores count and type") {
  auto ranks = Communicator::createAll(2, plainOptions());
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            comm.call({.collective = Collective::barrier,
                       .count = comm.rank() == 0 ? 8 : SIZE_MAX,
                       .type = comm.rank() == 0 ? DataType::float32 : static_cast<DataType>(200)});
            comm.barrier();
            return {};
          })) == "");
}

TEST_CASE("calls that differ and send nothing are found when the next call waits, or at the end") {
  auto ranks = Communicator::createAll(3, plainOptions());
  std::vector<float> x(10);
  std::atomic<int> called{0};
  const auto errors = onAll(ranks, [&](Communicator& comm) {
    comm.broadcast(x.data(), x.data(), 0, DataType::float32, comm.rank() == 1 ? 1 : 0);
    ++called;
    if (comm.rank() == 0) return;
    // Without rank 0's call it would not be known which of the two others is the odd one.
    while (called.load() < 3) std::this_thread::yield();
    comm.barrier(); // waits for rank 0 long enough to compare
  });
  for (const int rank : {1, 2}) {
    INFO(errors[static_cast<std::size_t>(rank)].text);
    CHECK(says(errors[static_cast<std::size_t>(rank)], ErrorCode::mismatch,
               {"rank 1 calls Broadcast #1 (0 float, root 1)",
                "rank 0 calls Broadcast #1 (0 float, root 0)"}));
  }
}

TEST_CASE("abort from any thread ends pending and later calls of every rank, and may be repeated") {
  for (const char* transport : {"inproc", "shm", "tcp"})
    for (int round = 0; round < 5; ++round) {
      auto ranks = Communicator::createAll(3, plainOptions(transport));
      std::thread aborter([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
        ranks[1].abort("the user said so");
        ranks[1].abort("and once more");
      });
      const auto errors = onAll(ranks, [](Communicator& comm) {
        std::vector<float> x(10'000);
        for (;;) {
          comm.allReduce(x.data(), x.data(), x.size(), DataType::float32, ReduceOp::max);
          if (comm.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      });
      aborter.join();
      INFO(transport << ": " << errors[0].text);
      for (const Caught& error : errors)
        REQUIRE(says(error, ErrorCode::aborted, {"the user said so", "rank 1"}));
      REQUIRE(says(caught([&] { ranks[0].barrier(); }), ErrorCode::aborted, {"the user said so"}));
    }
}

TEST_CASE("abandoning a communicator aborts it only while calls are in flight") {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    INFO(transport);
    auto ranks = Communicator::createAll(2, plainOptions(transport));
    detail::Shims::abandon(ranks[1], "nothing is in flight");
    REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
              comm.barrier();
              return {};
            })) == "");
    float x = 0;
    Work work = ranks[1].recvAsync(&x, 1, DataType::float32, 0);
    detail::Shims::abandon(ranks[1], "the program fails");
    for (const Caught& error : {caught([&] { work.wait(); }), caught([&] { ranks[0].barrier(); })})
      CHECK(says(error, ErrorCode::aborted,
                 {"rank 1 aborted with ", " in flight: the program fails"}));
  }
}

TEST_CASE("aborting two communicators in opposite order blocks no rank") {
  for (int round = 0; round < 10; ++round) {
    auto first = Communicator::createAll(2, plainOptions());
    auto second = Communicator::createAll(2, plainOptions());
    std::thread one([&] { first[0].abort("x"), second[0].abort("x"); });
    std::thread two([&] { second[1].abort("y"), first[1].abort("y"); });
    one.join();
    two.join();
    for (auto* ranks : {&first, &second})
      for (const Caught& error : onAll(*ranks, [](Communicator& comm) { comm.barrier(); }))
        REQUIRE(error.code == ErrorCode::aborted);
  }
}

TEST_CASE("a rank that never calls is named at the deadline") {
  for (const char* transport : {"inproc", "tcp"}) {
    Options options = plainOptions(transport);
    options.timeout = std::chrono::seconds(2); // the first call must end, on a busy machine too
    auto ranks = Communicator::createAll(4, options);
    const auto errors = onAll(ranks, [](Communicator& comm) {
      float x = 1;
      comm.allReduce(&x, &x, 1, DataType::float32, ReduceOp::sum);
      if (comm.rank() == 2) return; // it does not make the second call
      comm.allReduce(&x, &x, 1, DataType::float32, ReduceOp::sum);
    });
    for (std::size_t r : {0u, 1u, 3u}) {
      INFO(transport << ": " << errors[r].text);
      REQUIRE(says(errors[r], ErrorCode::timeout, {"rank 2", "AllReduce #2"}));
    }
  }
}

TEST_CASE("a timeout that is set later counts for the calls in flight, too") {
  auto ranks = Communicator::createAll(2, plainOptions()); // by default two minutes
  float x = 1;
  Work work = ranks[0].allReduceAsync(&x, &x, 1, DataType::float32, ReduceOp::sum);
  REQUIRE(!work.waitFor(std::chrono::milliseconds(50)));
  using std::chrono::milliseconds;
  for (const milliseconds wrong : {milliseconds(0), milliseconds(-1), milliseconds::max()})
    CHECK(says(caught([&] { ranks[0].setTimeout(wrong); }), ErrorCode::invalid_argument,
               {"RONDO_TIMEOUT"}));
  ranks[0].setTimeout(std::chrono::milliseconds(10));
  CHECK(says(caught([&] { work.wait(); }), ErrorCode::timeout, {"rank 1", "AllReduce #1"}));
}

TEST_CASE("a timeout names the call and the late ranks first, and then one rank's details") {
  Options options = plainOptions();
  options.timeout = std::chrono::milliseconds(300);
  {
    auto ranks = Communicator::createAll(3, options);
    float x[3] = {};
    const Caught late = caught([&] { ranks[0].allGather(x, x, 1, DataType::float32); });
    INFO(late.text);
    CHECK(late.code == ErrorCode::timeout);
    CHECK(late.text.starts_with("AllGather #1 (1 float) timed out after "));
    CHECK(late.text.find(": ranks 1 and 2 did not call it; rank 0: ") != std::string::npos);
    CHECK(caught([&] { ranks[1].barrier(); }).text == late.text); // on all ranks, as rank 0's
  }
  auto ranks = Communicator::createAll(2, options);
  float x = 1;
  const Caught alone = caught([&] { ranks[1].recv(&x, 1, DataType::float32, 0); });
  INFO(alone.text);
  CHECK(alone.text.starts_with("Send/Recv #1 (1 float) timed out after "));
  CHECK(alone.text.find(": rank 1 waited for rank 0; rank 1: ") != std::string::npos);
}

TEST_CASE("the longest limit of a wait is infinite, and the shortest is zero") {
  using std::chrono::nanoseconds;
  auto ranks = Communicator::createAll(2, plainOptions());
  const float x = 1;
  float y = 0;
  Work work = ranks[0].recvAsync(&y, 1, DataType::float32, 1);
  CHECK(!work.waitFor(nanoseconds::min()));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ranks[1].send(&x, 1, DataType::float32, 0);
  });
  CHECK(work.waitFor(nanoseconds::max()));
  later.join();
  CHECK(y == 1);
}

TEST_CASE("a Recv from a rank that has left fails, with or without a channel to it") {
  for (const char* transport : {"inproc", "shm", "tcp"})
    for (const bool connected : {false, true}) {
      INFO(transport << (connected ? ", connected" : ", not connected"));
      auto ranks = Communicator::createAll(2, plainOptions(transport));
      const auto errors = onAll(ranks, [&](Communicator& comm) {
        float x = 1;
        comm.barrier();
        if (connected && comm.rank() == 1) comm.send(&x, 1, DataType::float32, 0);
        if (connected && comm.rank() == 0) comm.recv(&x, 1, DataType::float32, 1);
        if (comm.rank() == 1) Communicator(std::move(comm)); // leaves
        else comm.recv(&x, 1, DataType::float32, 1);
      });
      INFO(errors[0].text);
      REQUIRE(errors[0].code == ErrorCode::peer_dead);
      REQUIRE(errors[0].culprit == 1);
    }
}

TEST_CASE("what a rank sent before it left is received, however late") {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    auto ranks = Communicator::createAll(2, plainOptions(transport));
    const auto errors = onAll(ranks, [&](Communicator& comm) {
      std::array<float, 3> x{1, 2, 3};
      comm.barrier();
      if (comm.rank() == 1) {
        for (float value : x) comm.send(&value, 1, DataType::float32, 0);
        Communicator(std::move(comm)); // leaves
        return;
      }
      x = {};
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      for (float& value : x) comm.recv(&value, 1, DataType::float32, 1);
      if (x != std::array<float, 3>{1, 2, 3}) throw Error(ErrorCode::data, "other values");
    });
    INFO(transport << ": " << errors[0].text);
    REQUIRE(errors[0].text == "");
  }
}

TEST_CASE("unknown names in the options are refused with the valid ones") {
  CHECK(says(caught([] { Communicator::createAll(2, plainOptions("carrier_pigeon")); }),
             ErrorCode::invalid_argument, {"carrier_pigeon", "inproc", "shm", "tcp"}));
  CHECK(says(caught([] { Communicator::createAll(2, plainOptions("", "rign")); }),
             ErrorCode::invalid_argument, {"rign", "ring"}));
  CHECK(says(caught([] { Communicator::createAll(0); }), ErrorCode::invalid_argument, {"0"}));
  CHECK(says(caught([] { Communicator::create(Rendezvous::inProcess(2).as(2)); }),
             ErrorCode::invalid_argument, {"2"}));
}

TEST_CASE("a signature can be decoded") {
  comm::Call call;
  call.collective = Collective::reduce;
  call.count = 1000;
  call.type = DataType::bfloat16;
  call.op = ReduceOp::max;
  for (const int root : {0, 11, 4096, 65'535}) {
    call.root = root;
    for (std::uint64_t sequence : {1u, 255u, 256u, 70'000u}) {
      const auto text = comm::describe(comm::numbered(comm::sign(call), sequence), sequence + 3);
      REQUIRE(text == "Reduce #" + std::to_string(sequence) + " (max of 1000 bfloat16, root " +
                          std::to_string(root) + ")");
    }
  }
}

// Proves: no count has the signature of another one near it, and no text has a wrong count.
TEST_CASE("a signature says a count up to 2^31 - 1, and of larger ones that they are large") {
  const auto sign = [](std::size_t count) {
    return comm::sign(
        {.collective = Collective::allreduce, .count = count, .type = DataType::float32});
  };
  CHECK(comm::describe(sign(2'147'483'647), 0) == "AllReduce #0 (sum of 2147483647 float)");
  std::set<std::uint64_t> signatures;
  std::size_t calls = 0;
  for (const std::size_t power : {31, 32, 33, 40, 60})
    for (const std::size_t more : {0, 1, 2, 3}) {
      const std::size_t count = (std::size_t{1} << power) + more;
      INFO(count);
      CHECK(comm::describe(sign(count), 0) == "AllReduce #0 (sum of at least 2^31 float)");
      signatures.insert(sign(count));
      signatures.insert(sign(more));
      calls += 1;
    }
  CHECK(signatures.size() == calls + 4);
  const std::size_t large = std::size_t{1} << 32;
  const bootstrap::CallDifference difference{.first = 5,
                                             .last = 5,
                                             .odd = 1,
                                             .odd_signature = comm::numbered(sign(large), 5),
                                             .other_signature = comm::numbered(sign(large + 1), 5)};
  const std::string call = "AllReduce #5 (sum of at least 2^31 float)";
  CHECK(difference.text(&comm::describe) ==
        "rank 1 calls " + call + " where rank 0 calls " + call + " with another count");
}

// Proves: what is recorded of a v-form has all bits of the count.
TEST_CASE("the recorded count of a v-form of more than 2^32 elements is exact") {
  const std::array<std::size_t, 2> counts{std::size_t{1} << 32, 5}, offsets{};
  const CollectiveCall::Tables tables{{{counts.data(), 1}, {offsets.data(), 1}}, {counts, offsets}};
  const comm::Call call{.collective = Collective::allgather, .layout = &tables};
  CHECK(comm::recordOf(call, {}, 0, 2).count == (std::size_t{1} << 32) + 5);
}

TEST_CASE("every form and operator of a collective has a signature of its own") {
  std::set<std::string> texts;
  std::size_t calls = 0;
  const CollectiveCall::Tables tables;
  for (const Collective collective : kCollectives)
    for (const bool uneven : {false, true})
      for (const ReduceOp op : kReduceOps) {
        if (uneven && !traits(collective).perRank()) continue;
        if (!reduces(collective) && op != ReduceOp::sum) continue;
        comm::Call call{.collective = collective, .type = DataType::int32, .op = op};
        if (uneven) call.layout = &tables;
        const std::string text = comm::describe(comm::numbered(comm::sign(call), 5), 5);
        INFO(text);
        CHECK(text.starts_with(std::string(traits(collective).title) + (uneven ? "v #5" : " #5")));
        if (reduces(collective)) CHECK(text.find(name(op)) != std::string::npos);
        texts.insert(text);
        ++calls;
      }
  CHECK(texts.size() == calls);
  CHECK(comm::describe(~std::uint64_t{0}, 0) == "no call of this library");
}

} // namespace rondo::test
