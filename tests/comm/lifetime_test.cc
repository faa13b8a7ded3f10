// Tests lifetimes: works, groups and communicators dropped in any order; deadlines with every way
// of waiting; bound plans that are replaced; a forked child.
#include <fcntl.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include "support/descriptors.h"
#include "support/forked_child.h"
#include "support/paths.h"
#include "support/ranks.h"
#include "support/test.h"
#include "transports/registry.h"

namespace rondo::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr auto i32 = DataType::int32;

/// Descriptors that programs which this process executes would inherit.
std::vector<int> inheritable() {
  std::vector<int> numbers;
  for (const int fd : openDescriptorNumbers())
    if (const int flags = ::fcntl(fd, F_GETFD); flags >= 0 && (flags & FD_CLOEXEC) == 0)
      numbers.push_back(fd);
  return numbers;
}

/// Whether `condition` becomes true within the test's time limit.
bool comesTrue(const std::function<bool()>& condition) {
  const auto end = steady_clock::now() + seconds(30);
  while (!condition()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

ErrorCode codeOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::data; // no error of a communicator
}

} // namespace

TEST_CASE("a communicator may be a global object, which ends after main()") {
  for (const transport::Kind& kind : transport::kinds()) {
    const std::string name(kind.name);
    if ((name != "shm" && name != "tcp" && name != "ucx") ||
        (kind.missing && !kind.missing().empty()))
      continue;
    INFO(name);
    const std::string job = "timeout 100 env RONDO_HEARTBEAT=10 RONDO_TRANSPORT=" + name +
                            " " RONDO_COMMAND " run -p 2 -- " RONDO_TEST_PROGRAMS
                            "/program_static_communicator";
    for (int i = 0; i < 4; ++i) REQUIRE(std::system(job.c_str()) == 0);
  }
}

TEST_CASE("a signal's handler may call exit() while its thread creates a communicator") {
  // Objects of the interrupted call are not freed, and exit() is not safe in a handler.
  const std::string job =
      "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 "
      "TSAN_OPTIONS=$TSAN_OPTIONS:report_signal_unsafe=0 RONDO_INIT_TIMEOUT=1000 "
      "timeout 100 " RONDO_TEST_PROGRAMS "/program_exit_in_handler";
  const int status = std::system(job.c_str());
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 3);
}

TEST_CASE("a thread that ends inside a group makes none of its calls") {
  auto comm = std::move(Communicator::createAll(1, plainOptions())[0]);
  int in = 1, out = -1;
  Work work;
  std::thread([&] {
    thread_local std::optional<Group> group; // ends after the objects that the group uses
    group.emplace();
    work = comm.allReduceAsync(&in, &out, 1, i32, ReduceOp::sum);
  }).join();
  CHECK(codeOf([&] { work.wait(); }) == ErrorCode::aborted);
  CHECK(out == -1);
}

TEST_CASE("a group's calls on a communicator that was destroyed meanwhile are not made") {
  auto ranks = Communicator::createAll(2, plainOptions());
  auto others = Communicator::createAll(1, plainOptions());
  std::int32_t in = 3, out = 0;
  Group group;
  Work received = ranks[0].recvAsync(&out, 1, i32, 1);
  Work sent = ranks[1].sendAsync(&in, 1, i32, 0);
  Work made = others[0].allReduceAsync(&in, &out, 1, i32, ReduceOp::sum);
  ranks.clear();
  REQUIRE(codeOf([&] { group.end(); }) == ErrorCode::aborted);
  REQUIRE(codeOf([&] { received.wait(); }) == ErrorCode::aborted);
  REQUIRE(codeOf([&] { sent.wait(); }) == ErrorCode::aborted);
  made.wait();
  REQUIRE(out == 3);
}

// Proves: the calls of a group that an exception leaves are not made, since their buffers may be
// gone, and the communicator goes on.
TEST_CASE("an exception that leaves a group drops its calls") {
  auto ranks = Communicator::createAll(2, plainOptions());
  Work sent;
  const auto leave = [&] {
    const Group group;
    const std::vector<std::int32_t> in(1);
    sent = ranks[0].sendAsync(in.data(), 1, i32, 1);
    ranks[0].recv(nullptr, 1, i32, 9); // throws
  };
  REQUIRE(codeOf(leave) == ErrorCode::invalid_argument);
  REQUIRE(codeOf([&] { sent.wait(); }) == ErrorCode::aborted);

  std::int32_t one = 7, other = 0;
  Group outer;
  Work received = ranks[1].recvAsync(&other, 1, i32, 0);
  REQUIRE(codeOf(leave) == ErrorCode::invalid_argument);
  REQUIRE(codeOf([&] { sent.wait(); }) == ErrorCode::aborted);
  ranks[0].send(&one, 1, i32, 1);
  outer.end();
  received.wait();
  REQUIRE(other == 7);

  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            std::int32_t in = 1, out = 0;
            comm.allReduce(&in, &out, 1, i32, ReduceOp::sum);
            return out == 2 ? "" : "wrong sum";
          })) == "");
}

TEST_CASE("a destroyed communicator's rank has left, also if a work and a buffer live on") {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    INFO(transport);
    Options options = plainOptions(transport);
    options.timeout = seconds(200);
    auto ranks = Communicator::createAll(2, options);
    std::int32_t in = 3, out = 0;
    Work sent = ranks[1].sendAsync(&in, 1, i32, 0);
    ranks[0].recv(&out, 1, i32, 1);
    Buffer memory = ranks[1].allocate(100);
    sent.wait();
    ranks.pop_back();
    REQUIRE(codeOf([&] { ranks[0].barrier(); }) == ErrorCode::peer_dead);
    REQUIRE(sent.test());
    sent.wait();
    memory.release();
  }
}

TEST_CASE("a destroyed communicator's rank has left, also if a ready future lives on") {
  Options options = plainOptions();
  options.timeout = seconds(200);
  auto ranks = Communicator::createAll(2, options);
  auto first = ranks[0].exchangeAsync({}), second = ranks[1].exchangeAsync({});
  first.wait();
  second.wait();
  ranks.pop_back();
  REQUIRE(codeOf([&] { ranks[0].barrier(); }) == ErrorCode::peer_dead);
}

TEST_CASE("a work that outlives its failed communicator throws its error") {
  auto ranks = Communicator::createAll(2, plainOptions());
  std::int32_t out = 0;
  Work received = ranks[0].recvAsync(&out, 1, i32, 1);
  ranks[1].abort("test");
  ranks.clear();
  REQUIRE(received.test());
  REQUIRE(codeOf([&] { received.wait(); }) == ErrorCode::aborted);
  const std::atomic<bool> stop{false};
  REQUIRE(Work::waitAny({&received, 1}, stop) == 0);
}

TEST_CASE("works and communicators may be dropped as soon as a call is done") {
  for (int round = 0; round < 60; ++round) {
    auto ranks = Communicator::createAll(2, plainOptions());
    std::int32_t in = round, out = -1;
    Work received = ranks[0].recvAsync(&out, 1, i32, 1);
    ranks[1].sendAsync(&in, 1, i32, 0);
    if (round % 3 == 0) {
      REQUIRE(comesTrue([&] { return received.test(); }));
      received = Work();
      ranks.clear();
    } else if (round % 3 == 1) {
      received = Work();
      ranks.clear();
    } else {
      std::thread other([work = std::move(received)]() mutable { work.wait(); });
      ranks.clear();
      other.join();
    }
    REQUIRE(out == round);
  }
}

TEST_CASE("a work taken in a group may be looked at by another thread while the group starts") {
  for (int round = 0; round < 30; ++round) {
    auto ranks = Communicator::createAll(1, plainOptions());
    std::int32_t in = 3, out = 0;
    Group group;
    Work work = ranks[0].allReduceAsync(&in, &out, 1, i32, ReduceOp::sum);
    std::atomic<bool> done{false};
    std::thread other([&, work]() mutable { done = comesTrue([&] { return work.test(); }); });
    group.end();
    other.join();
    REQUIRE(done);
    REQUIRE(out == 3);
  }
}

TEST_CASE("the deadline holds for a thread that waits in short portions") {
  for (bool collective : {false, true}) {
    Options options = plainOptions();
    options.timeout = milliseconds(300);
    auto ranks = Communicator::createAll(2, options);
    std::int32_t x = 0;
    Work work = collective ? ranks[0].barrierAsync() : ranks[0].recvAsync(&x, 1, i32, 1);
    const auto end = steady_clock::now() + seconds(20);
    REQUIRE(codeOf([&] {
              while (steady_clock::now() < end && !work.waitFor(milliseconds(2))) {
              }
            }) == ErrorCode::timeout);
  }
}

TEST_CASE("the deadline of a call holds while others of the same communicator go on") {
  Options options = plainOptions();
  options.timeout = seconds(3);
  auto ranks = Communicator::createAll(3, options);
  std::atomic<int> messages{0};
  const auto chat = [&](int rank) {
    const auto end = steady_clock::now() + seconds(20);
    codeOf([&] {
      for (std::int32_t x = 0; steady_clock::now() < end; ++messages) {
        Communicator& comm = ranks[static_cast<std::size_t>(rank)];
        if (rank == 0) comm.send(&x, 1, i32, 1);
        else comm.recv(&x, 1, i32, 0);
      }
    });
  };
  std::jthread first(chat, 0), second(chat, 1);
  REQUIRE(comesTrue([&] { return messages > 0; }));
  std::string text;
  try {
    std::int32_t x = 1;
    ranks[0].allReduce(&x, &x, 1, i32, ReduceOp::sum);
  } catch (const Error& error) {
    text = std::string(name(error.code())) + ": " + error.what();
  }
  first.join();
  second.join();
  INFO(text);
  REQUIRE(text.find("AllReduce #1") != std::string::npos);
  REQUIRE(text.find("timed out after") != std::string::npos);
}

TEST_CASE("a receive that no thread waits for has no deadline") {
  Options options = plainOptions();
  options.timeout = milliseconds(1000);
  auto ranks = Communicator::createAll(2, options);
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            std::int32_t x = 5 + comm.rank(), y = 0;
            Work received;
            if (comm.rank() == 0) received = comm.recvAsync(&y, 1, i32, 1);
            for (int i = 0; i < 30; ++i) { // together longer than the timeout
              if (comm.rank() == 1) std::this_thread::sleep_for(milliseconds(50));
              comm.barrier();
            }
            if (comm.rank() == 1) comm.send(&x, 1, i32, 0);
            received.wait();
            return comm.rank() == 1 || y == 6 ? "" : "wrong value";
          })) == "");
}

TEST_CASE("more shapes than are kept work, together with calls in flight and refused calls") {
  Options options = plainOptions("", "ring");
  options.deterministic = true;
  auto ranks = Communicator::createAll(2, options);
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            const int peer = 1 - comm.rank();
            std::vector<std::int32_t> x(700, comm.rank()), y(1400, -1);
            std::int32_t late = -1;
            Work received;
            for (int round = 0; round < 3; ++round) {
              if (round == 1) received = comm.recvAsync(&late, 1, i32, peer);
              for (std::size_t n = 1; n <= x.size(); ++n) {
                comm.allGather(x.data(), y.data(), n, i32);
                if (y[n - 1] != 0 || y[2 * n - 1] != 1) return "wrong value";
                // It cannot be planned. Earlier bound plans must still be there.
                if (codeOf([&] { comm.allReduce(x.data(), x.data(), n, i32, ReduceOp::sum); }) !=
                    ErrorCode::unsupported)
                  return "a sum in another order was not refused";
                comm.allGather(x.data(), y.data(), n, i32);
              }
            }
            comm.send(x.data(), 1, i32, peer);
            received.wait();
            return late == peer ? "" : "wrong message";
          })) == "");
}

TEST_CASE("channels are opened by the calls that need them, and their memory is reported") {
  Options options = plainOptions("inproc,shm", "ring");
  auto ranks = Communicator::createAll(4, options);
  for (const Communicator& rank : ranks) {
    CHECK(rank.memory().channels == 0);
    CHECK(rank.memory().bytes() == 0);
  }
  const auto reduceAll = [&] {
    return firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
      std::vector<std::int32_t> data(5000, 1);
      comm.allReduce(data.data(), data.data(), data.size(), i32, ReduceOp::sum);
      return data[4999] == 4 ? "" : "wrong sum";
    }));
  };
  REQUIRE(reduceAll() == "");
  const MemoryUse once = ranks[0].memory();
  CHECK(once.channels == 2); // the ring's two channels to the next rank
  CHECK(once.slots > 0);
  CHECK(once.slots <= (std::size_t{2} << 20) + (64 << 10)); // 1 MiB per channel, and its lines
  CHECK(once.staging == 0);
  for (int i = 0; i < 10; ++i) REQUIRE(reduceAll() == "");
  CHECK(ranks[0].memory().bytes() == once.bytes());
}

TEST_CASE("programs that a rank executes inherit nothing of its communicators") {
  const std::vector<int> before = inheritable();
  for (const char* transport : {"shm", "tcp"}) {
    INFO(transport);
    const UniqueId id = UniqueId::create(plainOptions());
    std::vector<std::future<Communicator>> coming;
    for (int rank = 0; rank < 2; ++rank)
      coming.push_back(
          Communicator::createAsync(Rendezvous::uniqueId(id, rank, 2), plainOptions(transport)));
    std::vector<Communicator> ranks;
    for (auto& one : coming) ranks.push_back(one.get());
    REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
              const Buffer buffer = comm.allocate(1 << 20);
              auto* data = static_cast<std::int32_t*>(buffer.data());
              comm.allReduce(data, data, 1 << 18, i32, ReduceOp::sum);
              comm.split(0, 0)->barrier();
              return {};
            })) == "");
    CHECK(inheritable() == before);
  }
}

TEST_CASE("a forked child may release a buffer that a call of its parent uses") {
  auto ranks = Communicator::createAll(2, plainOptions("inproc"));
  Buffer memory = ranks[0].allocate(sizeof(std::int32_t));
  std::int32_t in = 4;
  Work received = ranks[0].recvAsync(memory.data(), 1, i32, 1);
  REQUIRE(Child([&] {
            memory.release();
            ranks.clear();
            return 0;
          }).end() == 0);
  ranks[1].send(&in, 1, i32, 0);
  received.wait();
  REQUIRE(*static_cast<const std::int32_t*>(memory.data()) == 4);
}

TEST_CASE("a forked child drops its copy of a communicator and does no harm") {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    auto ranks = Communicator::createAll(2, plainOptions(transport));
    std::int32_t in = 4, out = 0;
    Work received = ranks[0].recvAsync(&out, 1, i32, 1); // now there is a helper thread
    const auto drop = [&] {
      return dropBesideOwnThreads([&] {
        received = Work();
        ranks.clear();
      });
    };
    INFO(transport);
    REQUIRE(Child(drop).end() == 0); // with a call in flight that owns the communicator
    ranks[1].send(&in, 1, i32, 0);
    received.wait();
    REQUIRE(out == 4);
    REQUIRE(Child(drop).end() == 0); // without one
    ranks[1].send(&in, 1, i32, 0);
    ranks[0].recv(&out, 1, i32, 1);
  }
}

} // namespace rondo::test
