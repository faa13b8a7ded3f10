// Proves: with RONDO_TLS=1 collectives give right results, neither data nor a node's name
// crosses the network in the clear, a changed byte is an error that names the peer, and ranks whose
// settings differ fail, each with the reason.
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/unique_id.h"
#include "net/tls.h"
#include "rondo/communicator.h"
#include "support/free_port.h"
#include "support/ranks.h"
#include "support/test.h"
#include "transports/registry.h"

namespace rondo::test {
namespace {

using Bytes = std::vector<std::byte>;

/// What is done with the bytes that this process passes to sockets of the network.
struct Wire {
  std::mutex mutex;
  bool records = false;
  Bytes recorded;
  std::atomic<int> flip_after{-1}; ///< flips a byte of a large send() after so many of them
  std::atomic<int> cut_after{-1};  ///< ends the connection in the middle of a large send()
  std::atomic<bool> flipped{false}, cut{false};
} wire;

bool ofNetwork(int fd) {
  int domain = 0;
  socklen_t length = sizeof domain;
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain != AF_UNIX;
}

void record(int fd, const void* data, std::size_t size) {
  if (!ofNetwork(fd)) return;
  const std::lock_guard lock(wire.mutex);
  if (!wire.records) return;
  const auto* from = static_cast<const std::byte*>(data);
  wire.recorded.insert(wire.recorded.end(), from, from + size);
}

} // namespace

// The library and its module call these instead of the system's.
extern "C" __attribute__((visibility("default"))) ssize_t send(int fd, const void* data,
                                                               size_t size, int flags) {
  static const auto real = reinterpret_cast<decltype(&send)>(::dlsym(RTLD_NEXT, "send"));
  record(fd, data, size);
  // Small messages are those of the control plane.
  if (size > 10'000 && wire.flip_after >= 0 && wire.flip_after.fetch_sub(1) == 0) {
    Bytes changed(size);
    std::memcpy(changed.data(), data, size);
    changed[5000] ^= std::byte{1};
    wire.flipped = true;
    return real(fd, changed.data(), size, flags);
  }
  if (size > 10'000 && wire.cut_after >= 0 && wire.cut_after.fetch_sub(1) == 0) {
    const ssize_t sent = real(fd, data, 5000, flags);
    ::shutdown(fd, SHUT_RDWR);
    wire.cut = true;
    return sent;
  }
  return real(fd, data, size, flags);
}

extern "C" __attribute__((visibility("default"))) ssize_t sendmsg(int fd, const msghdr* message,
                                                                  int flags) {
  static const auto real = reinterpret_cast<decltype(&sendmsg)>(::dlsym(RTLD_NEXT, "sendmsg"));
  for (std::size_t i = 0; i < message->msg_iovlen; ++i)
    record(fd, message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
  return real(fd, message, flags);
}

namespace {

Options withTls(bool tls = true) {
  Options options = plainOptions("tcp");
  options.tls = tls;
  return options;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string reduceAndBroadcast(Communicator& comm, std::size_t count) {
  const int size = comm.size();
  std::vector<std::int32_t> data(count);
  for (std::size_t i = 0; i < count; ++i)
    data[i] = static_cast<std::int32_t>(i % 1009) * (comm.rank() + 1);
  comm.allReduce(data, ReduceOp::sum);
  for (std::size_t i = 0; i < count; ++i)
    if (data[i] != static_cast<std::int32_t>(i % 1009) * size * (size + 1) / 2)
      return "allReduce of " + std::to_string(count) + ": wrong element " + std::to_string(i);
  const int root = size - 1;
  for (std::size_t i = 0; i < count; ++i)
    data[i] = comm.rank() == root ? static_cast<std::int32_t>(i * 7) : -1;
  comm.broadcast(data, root);
  for (std::size_t i = 0; i < count; ++i)
    if (data[i] != static_cast<std::int32_t>(i * 7))
      return "broadcast of " + std::to_string(count) + ": wrong element " + std::to_string(i);
  return {};
}

} // namespace

TEST_CASE("tls: collectives of 1 to 5 ranks, small and large, over one socket and several") {
  for (int size = 1; size <= 5; ++size)
    for (const int sockets : {1, 3}) {
      Options options = withTls();
      options.tcp_sockets = sockets;
      auto ranks = ranksOverSockets(size, options);
      INFO(size << " ranks, " << sockets << " sockets");
      for (const std::size_t count : {0, 1, 3, 1000, 4093, 4096, 65'537, 1'000'003})
        CHECK(firstComplaint(onRanks(ranks, [&](Communicator& comm) {
                return reduceAndBroadcast(comm, count);
              })) == "");
    }
}

TEST_CASE("tls: threads of one process") {
  auto ranks = Communicator::createAll(3, withTls());
  CHECK(firstComplaint(onRanks(
            ranks, [](Communicator& comm) { return reduceAndBroadcast(comm, 100'003); })) == "");
}

namespace {

/// What crosses the network while two ranks meet and send each other marked data.
Bytes recordJob(bool tls, const std::string& node, const Bytes& mark, std::size_t size) {
  {
    const std::lock_guard lock(wire.mutex);
    wire.records = true;
    wire.recorded.clear();
  }
  Options options = withTls(tls);
  options.node = node; // the control plane carries it
  auto ranks = ranksOverSockets(2, options);
  Bytes sent(size);
  for (std::size_t at = 0; at + mark.size() <= size; at += mark.size())
    std::copy(mark.begin(), mark.end(), sent.begin() + static_cast<std::ptrdiff_t>(at));
  CHECK(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
          Bytes data = comm.rank() == 0 ? sent : Bytes(size);
          comm.broadcast(data.data(), data.data(), size, DataType::uint8, 0);
          return data == sent ? "" : "other bytes";
        })) == "");
  ranks.clear();
  const std::lock_guard lock(wire.mutex);
  wire.records = false;
  return wire.recorded;
}

bool contains(const Bytes& bytes, const void* part, std::size_t size) {
  return ::memmem(bytes.data(), bytes.size(), part, size) != nullptr;
}

} // namespace

TEST_CASE("tls: data and node names do not cross the network in the clear") {
  const std::string node = "a-name-of-a-node-that-nobody-else-has";
  Bytes mark(32);
  for (std::size_t i = 0; i < mark.size(); ++i) mark[i] = static_cast<std::byte>(37 * i + 11);
  for (const std::size_t size : {32, 320, 320'000}) {
    const Bytes clear = recordJob(false, node, mark, size);
    CHECK(contains(clear, mark.data(), mark.size()));
    CHECK(contains(clear, node.data(), node.size()));
    const Bytes recorded = recordJob(true, node, mark, size);
    CHECK(recorded.size() > size);
    CHECK_FALSE(contains(recorded, mark.data(), mark.size()));
    CHECK_FALSE(contains(recorded, mark.data(), 8));
    CHECK_FALSE(contains(recorded, node.data(), node.size()));
  }
}

// Proves: who reads the network of a job without TLS does not learn the secret of the job that it
// grows into. No rank joins, so grow() fails after the ranks have told each other the id.
TEST_CASE("without tls: the id of grow() does not cross the network in the clear") {
  Options options = withTls(false);
  options.init_timeout = std::chrono::seconds(2);
  auto ranks = ranksOverSockets(2, options);
  const UniqueId id = UniqueId::create(options);
  {
    const std::lock_guard lock(wire.mutex);
    wire.records = true;
    wire.recorded.clear();
  }
  const auto errors = onRanks(ranks, [&](Communicator& comm) -> std::string {
    if (comm.rank() == 0) comm.grow(1, id);
    else comm.grow(1);
    return {};
  });
  const std::lock_guard lock(wire.mutex);
  wire.records = false;
  for (const std::string& error : errors) CHECK(has(error, "rank 2"));
  const auto secret = bootstrap::IdContent::decode(id).secret.bytes;
  CHECK(wire.recorded.size() > id.bytes.size());
  CHECK_FALSE(contains(wire.recorded, secret.data(), secret.size()));
}

TEST_CASE("tls: a byte that changes on its way is an error that names the sender") {
  for (const int sockets : {1, 2}) {
    Options options = withTls();
    options.tcp_sockets = sockets;
    auto ranks = ranksOverSockets(2, options);
    wire.flipped = false;
    wire.flip_after = 2;
    const auto errors = onRanks(ranks, [](Communicator& comm) -> std::string {
      Bytes data(4'000'000);
      for (int i = 0; i < 20; ++i)
        comm.broadcast(data.data(), data.data(), data.size(), DataType::uint8, 0);
      return {};
    });
    wire.flip_after = -1;
    REQUIRE(wire.flipped);
    for (std::size_t r = 0; r < 2; ++r) {
      INFO("rank " << r << ", " << sockets << " sockets: " << errors[r]);
      CHECK(has(errors[r], "threw: "));
      REQUIRE(ranks[r].failure());
      CHECK(ranks[r].failure()->code() == ErrorCode::transport);
      CHECK(ranks[r].failure()->culprit() == 0);
      CHECK(has(errors[r], "rank 0"));
      CHECK(has(errors[r], "TLS"));
    }
  }
}

TEST_CASE("tls: a data connection that is cut in a record fails the call on both ranks") {
  auto ranks = ranksOverSockets(2, withTls());
  wire.cut = false;
  wire.cut_after = 2;
  const auto errors = onRanks(ranks, [](Communicator& comm) -> std::string {
    Bytes data(4'000'000);
    for (int i = 0; i < 20; ++i)
      comm.broadcast(data.data(), data.data(), data.size(), DataType::uint8, 0);
    return {};
  });
  wire.cut_after = -1;
  REQUIRE(wire.cut);
  for (std::size_t r = 0; r < 2; ++r) {
    INFO("rank " << r << ": " << errors[r]);
    CHECK(has(errors[r], "threw: "));
    REQUIRE(ranks[r].failure());
    CHECK(ranks[r].failure()->code() == ErrorCode::transport); // both ranks live
    CHECK(has(errors[r], "rank 1"));
  }
}

namespace {

struct Outcome {
  std::optional<ErrorCode> code;
  std::string text;
};

/// Ranks that create a communicator with these settings of RONDO_TLS, as threads of one process or
/// over sockets. Each rank starts 50 ms after the one before.
std::vector<Outcome> meet(const std::vector<bool>& tls, bool threads = false) {
  const int size = static_cast<int>(tls.size());
  const UniqueId id = UniqueId::create(withTls(false));
  const Rendezvous local = Rendezvous::inProcess(size);
  std::vector<std::future<Communicator>> coming;
  for (int rank = 0; rank < size; ++rank) {
    coming.push_back(
        Communicator::createAsync(threads ? local.as(rank) : Rendezvous::uniqueId(id, rank, size),
                                  withTls(tls[static_cast<std::size_t>(rank)])));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::vector<Outcome> outcomes;
  for (auto& one : coming) {
    Outcome& outcome = outcomes.emplace_back();
    try {
      one.get();
    } catch (const Error& error) {
      outcome = {error.code(), error.what()};
    }
  }
  return outcomes;
}

std::string difference(const std::vector<bool>& tls, std::size_t odd, std::size_t other) {
  const auto of = [&](std::size_t rank) {
    return "rank " + std::to_string(rank) + " has RONDO_TLS=" + (tls[rank] ? "1" : "0");
  };
  return of(odd) + ", but " + of(other);
}

/// Whether the text names any two ranks whose settings differ, and their settings.
bool namesDifference(const std::string& text, const std::vector<bool>& tls) {
  for (std::size_t odd = 0; odd < tls.size(); ++odd)
    for (std::size_t other = 0; other < tls.size(); ++other)
      if (tls[odd] != tls[other] && has(text, difference(tls, odd, other))) return true;
  return false;
}

} // namespace

TEST_CASE("tls: ranks whose settings differ all fail, and each error names the difference") {
  for (const std::vector<bool>& tls :
       {std::vector<bool>{true, false}, {false, true}, {true, true, false}, {false, false, true}}) {
    for (const bool threads : {false, true}) {
      const auto outcomes = meet(tls, threads);
      for (std::size_t r = 0; r < outcomes.size(); ++r) {
        INFO("rank " << r << " of " << outcomes.size() << ": " << outcomes[r].text);
        REQUIRE(outcomes[r].code);
        CHECK(*outcomes[r].code == ErrorCode::init_failed);
        // Over sockets the hub compares each rank with the one that it accepted first.
        if (threads) CHECK(has(outcomes[r].text, difference(tls, tls.size() - 1, 0)));
        else CHECK(namesDifference(outcomes[r].text, tls));
      }
    }
  }
  for (const bool same : {true, false})
    for (const auto& outcome : meet({same, same})) CHECK_FALSE(outcome.code);
}

TEST_CASE("tls: grow() takes a rank with the same setting and refuses another") {
  for (const bool same : {true, false}) {
    auto ranks = ranksOverSockets(2, withTls());
    const UniqueId id = UniqueId::create(withTls());
    auto coming = std::async(std::launch::async, [&]() -> Outcome {
      try {
        Communicator grown = Communicator::join(id, withTls(same));
        return {{}, reduceAndBroadcast(grown, 1000)};
      } catch (const Error& error) {
        return {error.code(), error.what()};
      }
    });
    std::vector<Outcome> outcomes(2);
    onRanks(ranks, [&](Communicator& comm) -> std::string {
      Outcome& outcome = outcomes[static_cast<std::size_t>(comm.rank())];
      try {
        Communicator grown = comm.rank() == 0 ? comm.grow(1, id) : comm.grow(1);
        outcome.text = reduceAndBroadcast(grown, 1000);
      } catch (const Error& error) {
        outcome = {error.code(), error.what()};
      }
      return {};
    });
    outcomes.push_back(coming.get());
    for (const Outcome& outcome : outcomes) {
      INFO(outcome.text);
      CHECK(outcome.code.has_value() == !same);
      CHECK((outcome.text.empty() || has(outcome.text, "RONDO_TLS")));
    }
    CHECK(firstComplaint(onRanks(ranks, [](Communicator& comm) {
            return reduceAndBroadcast(comm, 1000);
          })) == ""); // the old communicator goes on
  }
}

namespace {

/// A file with a secret, or none.
Options atAddress(int port, const std::string& secret_file) {
  Options options = withTls();
  options.comm_id = "127.0.0.1:" + std::to_string(port);
  options.secret_file = secret_file;
  return options;
}

Outcome createAt(const Options& options, int rank, int size) {
  try {
    auto comm = Communicator::create(Rendezvous::commId(rank, size), options);
    comm.barrier();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

} // namespace

TEST_CASE("tls: without a secret it is an error that says how to give one") {
  const Outcome outcome = createAt(atAddress(freePort(), ""), 0, 2);
  REQUIRE(outcome.code);
  CHECK(*outcome.code == ErrorCode::invalid_argument);
  CHECK(has(outcome.text, "RONDO_TLS=1"));
  CHECK(has(outcome.text, "RONDO_SECRET_FILE"));
}

TEST_CASE("tls: two ranks meet by a secret file; a later communicator cannot change RONDO_TLS") {
  const std::string file =
      std::filesystem::temp_directory_path() / ("rondo_tls_test." + std::to_string(::getpid()));
  {
    const int fd = ::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0);
    REQUIRE(::write(fd, std::string(32, 'k').data(), 32) == 32);
    ::close(fd);
  }
  const Options options = atAddress(freePort(), file);
  auto other = std::async(std::launch::async, [&] { return createAt(options, 1, 2); });
  const Outcome mine = createAt(options, 0, 2), theirs = other.get();
  CHECK(mine.text == "");
  CHECK(theirs.text == "");
  // A later communicator uses the control connection of the first one.
  Options clear = options;
  clear.tls = false;
  const Outcome later = createAt(clear, 1, 2);
  std::filesystem::remove(file);
  REQUIRE(later.code);
  CHECK(*later.code == ErrorCode::invalid_argument);
  CHECK(has(later.text, "joined its job with RONDO_TLS=1"));
}

TEST_CASE("tls: ucx, which does not encrypt, is not used") {
  for (const auto& kind : transport::kinds()) {
    if (kind.name != "ucx" || (kind.missing && !kind.missing().empty())) continue;
    Options options = withTls();
    options.transports = "ucx";
    try {
      Communicator::createAll(2, options);
      FAIL("it was used");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::unsupported);
      CHECK(has(error.what(), "RONDO_TLS=1"));
    }
  }
}

} // namespace rondo::test
