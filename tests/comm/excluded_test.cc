// A rank that the others exclude by shrink({rank}) although it lives: whatever it calls, it gets an
// error or goes on alone, and the others go on without it.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "rondo/communicator.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

constexpr int kExcluded = 2;

/// Ranks of one process, or ranks that meet over sockets, and the transport between them.
struct Meeting {
  const char* name;
  bool sockets;
  const char* transport;
};
constexpr Meeting kMeetings[] = {
    {"threads", false, ""}, {"sockets, shm", true, "shm"}, {"sockets, tcp", true, "tcp"}};

std::string reduce(Communicator& comm, int size) {
  std::vector<std::int32_t> ones(1000, 1);
  comm.allReduce(ones, ReduceOp::sum);
  if (comm.size() != size) return "a communicator of " + std::to_string(comm.size());
  return ones == std::vector<std::int32_t>(1000, size) ? "" : "a wrong sum";
}

/// The others' part: they keep the old communicator or `close` it, and go on until the excluded
/// rank has its result.
std::string goOn(Communicator& comm, bool close, const std::atomic<bool>& over) {
  std::optional<Communicator> next = comm.shrink(std::vector<int>{kExcluded});
  if (close) {
    comm = std::move(*next); // which swaps them
    next.reset();
  }
  Communicator& own = close ? comm : *next;
  const std::string before = reduce(own, 2);
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!over && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  if (!over) return "the excluded rank still waits";
  return before + reduce(own, 2);
}

/// Returns a complaint unless `call` throws this error, which names one of the others if `names`.
/// `or_broken`: the error may also be that of a broken connection.
std::string expectError(ErrorCode code, bool names, const std::function<void()>& call,
                        bool or_broken = false) {
  try {
    call();
  } catch (const Error& error) {
    if (or_broken && error.code() == ErrorCode::transport) return "";
    const bool named = error.culprit() >= 0 && error.culprit() != kExcluded;
    return error.code() == code && named == names ? "" : error.what();
  }
  return "no error";
}

/// Runs `excluded` on one rank of three and goOn() on the others, after `set_up` on all.
std::string partWays(const Meeting& meeting, bool close,
                     const std::function<void(Communicator&)>& set_up,
                     const std::function<std::string(Communicator&)>& excluded) {
  Options options = plainOptions(meeting.transport);
  options.init_timeout = close ? 60s : 3s;
  auto ranks = meeting.sockets ? ranksOverSockets(3, options) : Communicator::createAll(3, options);
  std::atomic<bool> over{false};
  return firstComplaint(onRanks(ranks, [&](Communicator& comm) {
    set_up(comm);
    if (comm.rank() != kExcluded) return goOn(comm, close, over);
    const std::string result = excluded(comm);
    over = true;
    return result;
  }));
}

void abortAll(Communicator& comm) {
  if (comm.rank() == 0) comm.abort("the ranks part");
  while (!comm.failure()) std::this_thread::sleep_for(1ms);
}

} // namespace

TEST_CASE("an excluded rank that calls shrink() goes on alone once the others have closed") {
  for (const Meeting& meeting : kMeetings) {
    INFO(meeting.name);
    CHECK(partWays(meeting, true, abortAll, [](Communicator& comm) {
            Communicator own = comm.shrink();
            return reduce(own, 1);
          }) == "");
  }
}

TEST_CASE("an excluded rank that calls shrink() gets a timeout while the others keep the old one") {
  for (const Meeting& meeting : kMeetings) {
    INFO(meeting.name);
    CHECK(partWays(meeting, false, abortAll, [](Communicator& comm) {
            return expectError(ErrorCode::timeout, false, [&] { comm.shrink(); });
          }) == "");
  }
}

TEST_CASE("an excluded rank's collective names a rank that has left, or is late") {
  const auto warm = [](Communicator& comm) { reduce(comm, 3); };
  for (const Meeting& meeting : kMeetings)
    for (const bool close : {true, false}) {
      INFO(meeting.name << (close ? ", closed" : ", kept"));
      CHECK(partWays(meeting, close, warm, [&](Communicator& comm) {
              if (!close) comm.setTimeout(1s);
              // The end of a TCP connection may arrive before the news that the rank has left.
              const bool or_broken = close && std::string_view(meeting.transport) == "tcp";
              return expectError(
                  close ? ErrorCode::peer_dead : ErrorCode::timeout, true, [&] { reduce(comm, 3); },
                  or_broken);
            }) == "");
    }
}

TEST_CASE("an excluded rank that makes no call closes without waiting for the others") {
  for (const Meeting& meeting : kMeetings)
    for (const bool close : {true, false}) {
      INFO(meeting.name << (close ? ", closed" : ", kept"));
      CHECK(partWays(meeting, close, abortAll, [](Communicator& comm) {
              std::optional<Communicator>(std::move(comm)).reset();
              return std::string();
            }) == "");
    }
}

} // namespace rondo::test
