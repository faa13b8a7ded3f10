// Tests Options::checksum: a flipped bit on a wire, in a slot or in lent memory ends the call on
// all ranks, with the sender and the step.
#include <dlfcn.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "rondo/communicator.h"
#include "support/collective_case.h"
#include "support/grid.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using Bytes = std::vector<std::byte>;

/// What a wire damages: the first message that contains `mark`, `offset` bytes after it.
struct Damage {
  Bytes mark;
  std::ptrdiff_t offset = 0;
  std::atomic<bool> armed{false};
} damage;

/// Flips a bit of what a socket has received.
void maybeDamage(std::byte* data, std::size_t size) {
  if (!damage.armed) return;
  void* found = ::memmem(data, size, damage.mark.data(), damage.mark.size());
  if (!found) return;
  const std::ptrdiff_t at = static_cast<std::byte*>(found) - data + damage.offset;
  if (at < 0 || at >= static_cast<std::ptrdiff_t>(size)) return;
  if (damage.armed.exchange(false)) data[at] ^= std::byte{0x10};
}

} // namespace

// The library calls these instead of the system's.
extern "C" ssize_t recv(int fd, void* buffer, size_t size, int flags) {
  static const auto real = reinterpret_cast<decltype(&recv)>(::dlsym(RTLD_NEXT, "recv"));
  const ssize_t got = real(fd, buffer, size, flags);
  if (got > 0) maybeDamage(static_cast<std::byte*>(buffer), static_cast<std::size_t>(got));
  return got;
}

extern "C" ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static const auto real = reinterpret_cast<decltype(&recvmsg)>(::dlsym(RTLD_NEXT, "recvmsg"));
  const ssize_t got = real(fd, message, flags);
  std::size_t left = got > 0 ? static_cast<std::size_t>(got) : 0;
  for (std::size_t i = 0; i < message->msg_iovlen && left > 0; ++i) {
    const std::size_t size = std::min(left, message->msg_iov[i].iov_len);
    maybeDamage(static_cast<std::byte*>(message->msg_iov[i].iov_base), size);
    left -= size;
  }
  return got;
}

namespace {

Options settings(const std::string& transport, bool checksum = true) {
  Options options;
  options.transports = transport;
  options.checksum = checksum;
  options.timeout = std::chrono::seconds(30);
  return options;
}

Bytes randomBytes(std::size_t size) {
  static std::mt19937 random(11);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::optional<Error> receive(Communicator& comm, Bytes& into) {
  try {
    comm.recv(into.data(), into.size(), DataType::uint8, 0);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// A bit will be flipped that arrives `offset` bytes after the first byte of `sent`.
void arm(const Bytes& sent, std::ptrdiff_t offset) {
  damage.mark.assign(sent.begin(), sent.begin() + 16);
  damage.offset = offset;
  damage.armed = true;
}

/// Sends from rank 0 to rank 1, and flips a bit that arrives `offset` bytes after the first byte of
/// `sent`. Returns the error of rank 1.
std::optional<Error> sendDamaged(std::vector<Communicator>& ranks, const Bytes& sent,
                                 std::ptrdiff_t offset, Bytes& got) {
  got.resize(sent.size());
  arm(sent, offset);
  const Work work = ranks[0].sendAsync(sent.data(), sent.size(), DataType::uint8, 1);
  return receive(ranks[1], got);
}

/// Requires that rank 1 blames rank 0 for a damaged message, and that rank 0 hears of it.
void requireBlame(std::vector<Communicator>& ranks, const std::optional<Error>& error,
                  const std::string& piece) {
  REQUIRE(error);
  INFO(error->what());
  CHECK(error->code() == ErrorCode::transport);
  CHECK(error->culprit() == 0);
  const std::string text = error->what();
  CHECK(text.find("rank 0") != std::string::npos);
  CHECK(text.find("CRC32C") != std::string::npos);
  CHECK(text.find(piece) != std::string::npos);
  CHECK_THROWS_AS(ranks[0].barrier(), Error);
  CHECK(ranks[0].failure()->code() == ErrorCode::transport);
}

} // namespace

// Proves: no byte of a message over TCP can change without notice, neither of its header nor of its
// body, over one socket and over several.
TEST_CASE("checksum: a bit that a TCP connection flips is found") {
  for (const int sockets : {1, 2})
    for (const std::ptrdiff_t offset : {-1, -5, -9, -16, -24, 0, 500, 999}) {
      Options options = settings("tcp");
      options.tcp_sockets = sockets;
      auto ranks = Communicator::createAll(2, options);
      const Bytes sent = randomBytes(1000);
      Bytes got;
      INFO(sockets << " sockets, byte " << offset);
      const std::optional<Error> error = sendDamaged(ranks, sent, offset, got);
      CHECK(!damage.armed);
      requireBlame(ranks, error, offset < 0 ? "header" : "step");
    }
}

TEST_CASE("checksum: a damaged header that arrived() finds fails the communicator") {
  auto ranks = Communicator::createAll(2, settings("tcp"));
  const Bytes sent = randomBytes(1000);
  arm(sent, -9);
  const Work work = ranks[0].sendAsync(sent.data(), sent.size(), DataType::uint8, 1);
  std::optional<Error> error;
  try {
    while (!ranks[1].arrived(0)) std::this_thread::yield();
  } catch (const Error& thrown) {
    error = thrown;
  }
  requireBlame(ranks, error, "header");
  CHECK(std::string(error->what()).find("arrived") != std::string::npos);
}

// Proves that the test above sees damage, and that checksums are optional.
TEST_CASE("checksum: without it, a flipped bit arrives") {
  auto ranks = Communicator::createAll(2, settings("tcp", false));
  const Bytes sent = randomBytes(1000);
  Bytes got;
  CHECK(!sendDamaged(ranks, sent, 500, got));
  CHECK(got != sent);
}

// Proves: the receiver sums what is in the slot, not what it expects there.
TEST_CASE("checksum: a write to a slot in shared memory is found") {
  auto ranks = Communicator::createAll(2, settings("shm"));
  const Bytes sent = randomBytes(1000);
  Bytes got(sent.size());
  const Work work = ranks[0].sendAsync(sent.data(), sent.size(), DataType::uint8, 1);
  while (!ranks[1].arrived(0)) std::this_thread::yield();
  bool flipped = false;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; !flipped && std::getline(maps, line);) {
    if (line.find("rw-s") == std::string::npos) continue;
    std::istringstream words(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    words >> std::hex >> begin >> dash >> end;
    auto* found = static_cast<std::byte*>(
        ::memmem(reinterpret_cast<void*>(begin), end - begin, sent.data(), sent.size()));
    if (!found) continue;
    found[700] ^= std::byte{1};
    flipped = true;
  }
  REQUIRE(flipped);
  requireBlame(ranks, receive(ranks[1], got), "step");
}

// Proves: the receiver sums what the sender lent, as it is when it reads it.
TEST_CASE("checksum: a write to lent memory is found") {
  for (const char* transport : {"inproc", "shm"}) {
    auto ranks = Communicator::createAll(2, settings(transport));
    // More messages than a channel has slots, so that the sender cannot copy them all.
    Buffer sent = ranks[0].allocate(std::size_t{8} << 20);
    const Bytes content = randomBytes(sent.size());
    std::memcpy(sent.data(), content.data(), content.size());
    Bytes got(content.size());
    // The first time, the receiver may not know the memory yet, and gets copies.
    Work work = ranks[0].sendAsync(sent.data(), sent.size(), DataType::uint8, 1);
    CHECK(!receive(ranks[1], got));
    CHECK(got == content);
    work.wait();
    work = ranks[0].sendAsync(sent.data(), sent.size(), DataType::uint8, 1);
    while (!ranks[1].arrived(0)) std::this_thread::yield();
    static_cast<std::byte*>(sent.data())[1000] ^= std::byte{1};
    INFO(transport);
    requireBlame(ranks, receive(ranks[1], got), "step");
  }
}

// Proves: messages that a step combines are checked, too, and all ranks fail.
TEST_CASE("checksum: a changed bit in a message of a reduction is found") {
  for (const std::ptrdiff_t offset : {0, 500, 999}) {
    auto ranks = Communicator::createAll(2, settings("tcp"));
    const Bytes sent = randomBytes(1000), other = randomBytes(sent.size());
    Bytes sum(sent.size()), sum_of_other(sent.size());
    arm(sent, offset);
    const Work work = ranks[0].reduceAsync(sent.data(), sum.data(), sent.size(), DataType::uint8,
                                           ReduceOp::sum, 1);
    std::optional<Error> error;
    try {
      ranks[1].reduce(other.data(), sum_of_other.data(), other.size(), DataType::uint8,
                      ReduceOp::sum, 1);
    } catch (const Error& found) {
      error = found;
    }
    INFO("byte " << offset);
    CHECK(!damage.armed);
    requireBlame(ranks, error, "step");
  }
}

// Proves: a rank cannot expect checksums that another one does not send, nor the other way round.
TEST_CASE("checksum: all ranks follow rank 0") {
  for (const bool first : {false, true}) {
    const Rendezvous meet = Rendezvous::inProcess(2);
    auto other = Communicator::createAsync(meet.as(1), settings("tcp", !first));
    std::vector<Communicator> ranks;
    ranks.push_back(Communicator::create(meet.as(0), settings("tcp", first)));
    ranks.push_back(other.get());
    const Bytes sent = randomBytes(1000);
    Bytes got;
    CHECK(sendDamaged(ranks, sent, 500, got).has_value() == first);
  }
}

TEST_CASE("checksum: every collective is right with it") {
  const ReduceOp ops[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::preMulSum(2)};
  for (const char* transport : {"inproc", "shm", "tcp"})
    for (const int size : {2, 3})
      for (const int threads : {1, 2}) {
        Options options = settings(transport);
        options.threads = threads;
        auto ranks = Communicator::createAll(size, options);
        std::vector<std::string> wrong(static_cast<std::size_t>(size));
        std::vector<std::jthread> running;
        for (Communicator& comm : ranks)
          running.emplace_back([&] {
            for (const Collective collective : kCollectives)
              for (const std::size_t count : {0, 1, 10, 3000, 200'000})
                for (const ReduceOp& op : ops) {
                  const bool more = reduces(collective) && !kOnlyOrders;
                  if (!more && op.kind() != ReduceOp::Kind::sum) continue;
                  CollectiveCase one;
                  one.collective = collective;
                  one.count = count;
                  one.op = op;
                  one.in_place = count == 3000 && traits(collective).in_place;
                  if (const std::string text = one.run(comm); !text.empty())
                    wrong[static_cast<std::size_t>(comm.rank())] = text;
                }
          });
        running.clear();
        for (const std::string& text : wrong) CHECK(text == "");
      }
}

} // namespace rondo::test
