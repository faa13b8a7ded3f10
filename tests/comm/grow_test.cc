// Tests grow() and join(): ranks are threads of this process.
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/newcomer.h"
#include "bootstrap/unique_id.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

Options onLoopback(const std::string& transports) {
  Options options = plainOptions(transports);
  options.socket_interface = "lo";
  options.init_timeout = 60s;
  return options;
}

/// An id that ends with the case.
struct Id {
  const UniqueId value = UniqueId::create(onLoopback(""));
  Id() = default;
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  ~Id() { value.withdraw(); }
};

/// Adds up the ranks' numbers; "" if the sum is right.
std::string reduceOn(Communicator& comm) {
  std::vector<std::int64_t> sums(1000, comm.rank() + 1);
  comm.allReduce(sums, ReduceOp::sum);
  const std::int64_t wanted = std::int64_t{comm.size()} * (comm.size() + 1) / 2;
  for (const std::int64_t sum : sums)
    if (sum != wanted) return "a wrong sum: " + std::to_string(sum);
  return {};
}

std::string codeAndText(const Error& error) {
  return std::string(name(error.code())) + ": " + error.what();
}

/// Runs join() and then `body` as newcomers, while the old ranks do what a test does.
class Newcomers {
 public:
  Newcomers(int count, const UniqueId& id, const Options& options,
            std::function<std::string(Communicator&)> body) {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([this, id, options, body] {
        std::string complaint;
        try {
          Communicator comm = Communicator::join(id, options);
          complaint = body(comm);
        } catch (const Error& error) {
          complaint = codeAndText(error);
        }
        const std::lock_guard lock(mutex_);
        if (!complaint.empty()) complaints_.push_back(complaint);
      });
  }
  ~Newcomers() { end(); }

  /// Waits for all of them; returns what they complained about.
  std::vector<std::string> end() {
    for (std::thread& one : threads_)
      if (one.joinable()) one.join();
    return complaints_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> complaints_;
  std::vector<std::thread> threads_;
};

bool await(const UniqueId& id, int waiting) {
  for (const base::Deadline limit(60s); id.waiting() != waiting; std::this_thread::sleep_for(1ms))
    if (limit.passed()) return false;
  return true;
}

Communicator growBy(int newcomers, const UniqueId& id, Communicator& comm) {
  return comm.rank() == comm.size() - 1 ? comm.grow(newcomers, id) : comm.grow(newcomers);
}

/// The error of grow() on this rank, after which the old communicator must still work.
std::string errorOf(Communicator& comm, const std::function<Communicator()>& grow,
                    std::vector<std::string>& errors) {
  try {
    grow();
    return "grow() did not throw";
  } catch (const Error& error) {
    errors[static_cast<std::size_t>(comm.rank())] = codeAndText(error);
  }
  return reduceOn(comm);
}

} // namespace

// Proves: old ranks keep their numbers, newcomers get the next ones, results are right on both
// communicators, and what has grown grows again.
TEST_CASE("ranks grow by newcomers, twice, over each transport") {
  for (const char* transport : {"shm", "tcp"})
    for (int ranks = 1; ranks <= 5; ++ranks)
      for (int newcomers = 1; newcomers <= 3; ++newcomers) {
        if (!kWholeGrid && ranks > 2 && newcomers == 3) continue;
        INFO(transport << ", " << ranks << " + " << newcomers << " + 1");
        const Options options = onLoopback(transport);
        auto comms = Communicator::createAll(ranks, options);
        const Id id, last;
        const auto second = [&](Communicator& comm) {
          Communicator grown = growBy(1, last.value, comm);
          if (grown.rank() != comm.rank()) return std::string("another rank after grow()");
          return reduceOn(grown);
        };
        Newcomers first(newcomers, id.value, options, [&](Communicator& comm) {
          if (comm.rank() < ranks || comm.size() != ranks + newcomers)
            return std::string("a newcomer has the rank of an old one");
          return reduceOn(comm) + second(comm);
        });
        Newcomers later(1, last.value, options, [&](Communicator& comm) {
          if (comm.rank() != ranks + newcomers) return std::string("not the next rank");
          return reduceOn(comm);
        });
        const auto complaints = onRanks(comms, [&](Communicator& comm) {
          Communicator grown = growBy(newcomers, id.value, comm);
          if (grown.rank() != comm.rank() || grown.size() != ranks + newcomers)
            return std::string("another rank or size after grow()");
          return reduceOn(grown) + second(grown) + reduceOn(comm);
        });
        CHECK(firstComplaint(complaints) == "");
        CHECK(first.end().empty());
        CHECK(later.end().empty());
      }
}

// Proves: the deadline ends the wait on every rank, with a text that names the missing rank, and
// the old communicator still works and grows by another id.
TEST_CASE("a newcomer that never comes") {
  Options options = onLoopback("shm");
  options.init_timeout = 3s; // it limits createAll() too
  auto comms = Communicator::createAll(3, options);
  const Id id, other;
  std::vector<std::string> errors(3);
  const auto complaints = onRanks(comms, [&](Communicator& comm) {
    return errorOf(
        comm, [&] { return growBy(1, id.value, comm); }, errors);
  });
  CHECK(firstComplaint(complaints) == "");
  for (const std::string& error : errors) {
    CHECK(error.find("init_failed") == 0);
    CHECK(error.find("rank 3") != std::string::npos);
  }
  Newcomers late(1, other.value, onLoopback("shm"), reduceOn);
  REQUIRE(await(other.value, 1));
  const auto grown = onRanks(comms, [&](Communicator& comm) {
    Communicator next = growBy(1, other.value, comm);
    return reduceOn(next);
  });
  CHECK(firstComplaint(grown) == "");
  CHECK(late.end().empty());
}

// Proves: the death of a newcomer that has its rank already is known at once (not at the deadline,
// whose text is another one), and names it.
TEST_CASE("a newcomer that dies between its rank and its first connection") {
  const Options options = onLoopback("shm");
  auto comms = Communicator::createAll(2, options);
  const Id id;
  std::thread dies([&] {
    bootstrap::Newcomer newcomer(bootstrap::IdContent::decode(id.value), 60s, false);
    newcomer.wait();
  });
  std::vector<std::string> errors(2);
  const auto complaints = onRanks(comms, [&](Communicator& comm) {
    return errorOf(
        comm, [&] { return growBy(1, id.value, comm); }, errors);
  });
  dies.join();
  CHECK(firstComplaint(complaints) == "");
  for (const std::string& error : errors)
    CHECK(error == "init_failed: rank 2, a new one, died before it had joined");
}

// Proves: a newcomer that gave up or died while it waited takes no rank.
TEST_CASE("a newcomer that dies while it waits is not counted") {
  const Options options = onLoopback("shm");
  auto comms = Communicator::createAll(2, options);
  const Id id;
  {
    const bootstrap::Newcomer dies(bootstrap::IdContent::decode(id.value), 60s, false);
    REQUIRE(await(id.value, 1));
  }
  REQUIRE(await(id.value, 0));
  Newcomers lives(1, id.value, options, reduceOn);
  const auto complaints = onRanks(comms, [&](Communicator& comm) {
    Communicator grown = growBy(1, id.value, comm);
    return reduceOn(grown);
  });
  CHECK(firstComplaint(complaints) == "");
  CHECK(lives.end().empty());
}

// Proves: a difference between the ranks is the same error on all of them, and breaks nothing.
TEST_CASE("wrong arguments of grow() are refused on all ranks alike") {
  auto comms = Communicator::createAll(3, onLoopback("shm"));
  const Id id, other;
  const auto refused = [&](const std::function<Communicator(Communicator&)>& grow,
                           const std::string& text) {
    std::vector<std::string> errors(3);
    const auto complaints = onRanks(comms, [&](Communicator& comm) {
      return errorOf(
          comm, [&] { return grow(comm); }, errors);
    });
    CHECK(firstComplaint(complaints) == "");
    for (const std::string& error : errors) CHECK(error == "invalid_argument: grow: " + text);
  };
  refused([&](Communicator& comm) { return comm.grow(comm.rank() == 1 ? 2 : 1, id.value); },
          "rank 0 asks for 1 new ranks, rank 1 for 2");
  refused(
      [&](Communicator& comm) { return comm.grow(1, comm.rank() == 2 ? other.value : id.value); },
      "rank 0 and rank 2 pass different ids");
  refused([&](Communicator& comm) { return comm.grow(1); }, "no rank passes an id");
  refused([&](Communicator& comm) { return comm.grow(0, id.value); },
          "0 new ranks: must be 1 to 65533");
}

// Proves: each way in which a newcomer can fail has its own text.
TEST_CASE("join() says why a rank cannot join") {
  Options options = onLoopback("shm");
  const auto refusal = [&](const UniqueId& id) {
    try {
      Communicator::join(id, options);
    } catch (const Error& error) {
      return codeAndText(error);
    }
    return std::string("it joined");
  };
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find("init_failed: cannot join the ranks that meet at ") == 0);
    CHECK(text.find(part) != std::string::npos);
  };
  const Id id;
  auto content = bootstrap::IdContent::decode(id.value);
  content.secret.bytes[7] ^= std::byte{1};
  has(refusal(content.encode()), "the listener does not know this job's secret");
  CHECK(id.value.waiting() == 0);
  options.init_timeout = 2s;
  has(refusal(id.value), "they did not call grow() in time");
  options.init_timeout = 60s;
  std::thread withdraws([&] {
    await(id.value, 1);
    id.value.withdraw();
  });
  has(refusal(id.value), "has ended, or withdrew it");
  withdraws.join();
  has(refusal(id.value), "connecting to");
  CHECK_THROWS_AS(id.value.waiting(), Error);
}

// Proves: ranks that are too many are told so, and do not wait for the deadline.
TEST_CASE("a newcomer for whom there is no rank") {
  const Options options = onLoopback("shm");
  auto comms = Communicator::createAll(2, options);
  const Id id;
  Newcomers both(2, id.value, options, reduceOn);
  REQUIRE(await(id.value, 2));
  const auto complaints = onRanks(comms, [&](Communicator& comm) {
    Communicator grown = growBy(1, id.value, comm);
    return reduceOn(grown);
  });
  CHECK(firstComplaint(complaints) == "");
  const auto told = both.end();
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("have met without it") != std::string::npos);
}

// Proves: abort() is a revocation: calls end on all ranks, and the same ranks go on, and grow.
TEST_CASE("an aborted communicator shrinks to the same ranks, and these grow") {
  const Options options = onLoopback("shm");
  auto comms = Communicator::createAll(3, options);
  const Id id;
  Newcomers newcomer(1, id.value, options, reduceOn);
  const auto complaints = onRanks(comms, [&](Communicator& comm) {
    if (comm.rank() == 1) comm.abort("revoked");
    try {
      for (;;) comm.barrier();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::aborted) return codeAndText(error);
    }
    Communicator same = comm.shrink();
    if (same.size() != 3 || same.rank() != comm.rank()) return std::string("other ranks");
    Communicator grown = growBy(1, id.value, same);
    return reduceOn(grown) + reduceOn(same);
  });
  CHECK(firstComplaint(complaints) == "");
  CHECK(newcomer.end().empty());
}

// Proves: memory that was registered with the old communicator serves the new one.
TEST_CASE("a Buffer of the old communicator is used by the grown one") {
  const Options options = onLoopback("shm");
  auto comms = Communicator::createAll(2, options);
  const Id id;
  constexpr std::size_t kCount = 1 << 18;
  const auto sum = [](Communicator& comm, float* data) {
    for (std::size_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(comm.rank());
    comm.allReduce(data, data, kCount, DataType::float32, ReduceOp::sum);
    const auto wanted = static_cast<float>(comm.size() * (comm.size() - 1) / 2);
    return data[0] == wanted && data[kCount - 1] == wanted ? "" : "a wrong sum";
  };
  Newcomers newcomer(1, id.value, options, [&](Communicator& comm) {
    Buffer own = comm.allocate(kCount * sizeof(float));
    return std::string(sum(comm, static_cast<float*>(own.data())));
  });
  const auto complaints = onRanks(comms, [&](Communicator& comm) {
    Buffer own = comm.allocate(kCount * sizeof(float));
    auto* data = static_cast<float*>(own.data());
    const std::string before = sum(comm, data);
    Communicator grown = growBy(1, id.value, comm);
    return before + sum(grown, data);
  });
  CHECK(firstComplaint(complaints) == "");
  CHECK(newcomer.end().empty());
}

} // namespace rondo::test
