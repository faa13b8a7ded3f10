// Copies from and to memory of another process that is not mapped: what is copied, what is refused,
// and the errors if the other process has ended.
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "comm/region.h"
#include "engine/open_loans.h"
#include "rondo/error.h"
#include "support/descriptors.h"
#include "support/test.h"
#include "transports/shm/loans.h"
#include "transports/shm/process_memory.h"
#include "transports/slot_ring.h"
#include "transports/tuning.h"

namespace rondo::test {
namespace {

using namespace transport;
using namespace transport::shm;

std::uint64_t addressOf(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

/// Two pages, the second of which cannot be accessed.
class PageBeforeNone {
 public:
  PageBeforeNone()
      : at_(static_cast<std::byte*>(
            ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(at_ != MAP_FAILED);
    REQUIRE(::mprotect(at_ + 4096, 4096, PROT_NONE) == 0);
  }
  ~PageBeforeNone() { ::munmap(at_, 8192); }
  PageBeforeNone(const PageBeforeNone&) = delete;
  PageBeforeNone& operator=(const PageBeforeNone&) = delete;
  std::byte* end() const { return at_ + 4096; }

 private:
  std::byte* const at_;
};

/// A child that only waits until it is killed.
class Idle {
 public:
  Idle() : pid_(::fork()) {
    if (pid_ != 0) return;
    ::alarm(60);
    for (;;) ::pause();
  }
  ~Idle() {
    die();
    ::waitpid(pid_, nullptr, 0);
  }
  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;
  /// Kills the child, and leaves it a zombie.
  void die() {
    ::kill(pid_, SIGKILL);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

/// The memory of a channel from this process to itself.
struct Channel {
  Channel() {
    std::memset(memory.data(), 0, memory.size());
    introduce(memory.data());
  }
  std::shared_ptr<Loans> end(Side side, bool slots_faster = false) {
    return loansOn({std::shared_ptr<void>(), memory.data()}, side, 3,
                   std::make_shared<PeerRegions>(), slots_faster);
  }
  base::AlignedBuffer memory{SlotRing::bytesNeeded(1, 64)};
};

} // namespace

// Proves: a copy that the kernel ends early is an error, and no byte beyond the end is changed.
TEST_CASE("memory of a process is copied both ways, up to its end and not beyond", "[private]") {
  const PageBeforeNone page;
  for (const std::size_t size : {0u, 1u, 7u, 4096u}) {
    std::vector<std::byte> data(size, std::byte{9}), back(size);
    CHECK(writeMemory(::getpid(), addressOf(page.end() - size), data.data(), size) == 0);
    CHECK(readMemory(::getpid(), addressOf(page.end() - size), back.data(), size) == 0);
    CHECK(data == back);
  }
  std::array<std::byte, 100> data{};
  // The kernel copies 60 bytes and returns 60. That must count as an error.
  CHECK(readMemory(::getpid(), addressOf(page.end() - 60), data.data(), 100) == EFAULT);
  CHECK(writeMemory(::getpid(), addressOf(page.end() - 60), data.data(), 100) == EFAULT);
}

// Proves: another process with the same number, and one that has ended, are not taken for the peer.
TEST_CASE("a process is identified by its token, and a process that has ended is noticed",
          "[private]") {
  const Token token = ownToken();
  CHECK(tryRead(::getpid(), token) == 0);
  CHECK(tryRead(::getpid(), {token.address, token.value + 1}) == ESRCH);
  Idle child;
  CHECK(tryRead(child.pid(), token) == 0); // fork() copied the token
  CHECK_FALSE(ended(child.pid()));
  CHECK_FALSE(ended(::getpid()));
  // Its first thread ends, another one goes on.
  const pid_t headless = ::fork();
  if (headless == 0) {
    std::thread([] {
      ::alarm(60);
      for (;;) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);
  }
  while (tryRead(headless, token) == 0) std::this_thread::yield();
  CHECK_FALSE(ended(headless));
  ::kill(headless, SIGKILL);
  ::waitpid(headless, nullptr, 0);
  CHECK(ended(headless));
  child.die(); // it is a zombie now
  CHECK(ended(child.pid()));
  CHECK(tryRead(child.pid(), token) == ESRCH);
}

// Proves: memory is lent only from the sizes of tuning.h on, only after the receiver has answered
// that it can read, and not after a refusal.
TEST_CASE("private memory is lent if it is large and the receiver only stores it", "[private]") {
  Channel channel;
  const auto sender = channel.end(Side::sender), receiver = channel.end(Side::receiver);
  std::vector<std::byte> data(2 * kReadBytes, std::byte{5}), copy(data.size());
  CHECK_FALSE(sender->offer(data.data(), data.size(), Use::keep)); // the receiver has not answered
  answer(channel.memory.data(), 3);
  CHECK_FALSE(sender->offer(data.data(), kReadBytes - 1, Use::keep));
  CHECK_FALSE(sender->offer(data.data(), data.size(), Use::combine));
  CHECK_FALSE(sender->offer(data.data(), data.size(), Use::exchange));
  CHECK_FALSE(sender->offer(data.data(), kShareBytes - 1, Use::one_way));
  CHECK(sender->offer(data.data(), kShareBytes, Use::one_way));
  for (const Use use : {Use::keep, Use::one_way}) {
    const auto loan = sender->offer(data.data(), data.size(), use);
    REQUIRE(loan);
    CHECK(receiver->find(*loan, data.size()) == nullptr);
    CHECK(receiver->shared(*loan) == (use == Use::one_way));
    receiver->read(*loan, 10, copy.data() + 10, data.size() - 10);
    CHECK(std::memcmp(copy.data() + 10, data.data() + 10, data.size() - 10) == 0);
    CHECK(sender->write(data.data(), addressOf(copy.data()), 10));
    CHECK(copy == data);
    std::fill(copy.begin(), copy.end(), std::byte{0});
  }
  CHECK_FALSE(sender->peerEnded());
  // If write() has failed, later loans do not let both ends copy.
  CHECK_FALSE(sender->write(data.data(), 0, 10));
  const auto loan = sender->offer(data.data(), data.size(), Use::one_way);
  REQUIRE(loan);
  CHECK_FALSE(receiver->shared(*loan));
  // If the receiver could not read, the sender lends no more private memory.
  sender->refused();
  CHECK_FALSE(sender->offer(data.data(), data.size(), Use::one_way));
}

// Proves: where slots are faster than the kernel's copies, a one-way call lends no private memory.
// Mapped memory is lent as everywhere, and the only receiver that may copy still reads by itself.
TEST_CASE("one-way calls lend only mapped memory where slots are faster", "[private]") {
  Channel channel;
  const auto sender = channel.end(Side::sender, true);
  answer(channel.memory.data(), 3);
  const auto mapped = comm::Region::allocate(2 * kReadBytes);
  const std::vector<std::byte> data(2 * kReadBytes);
  CHECK_FALSE(sender->offer(data.data(), data.size(), Use::one_way));
  CHECK(sender->offer(data.data(), data.size(), Use::keep));
  CHECK(sender->offer(mapped->data(), mapped->size(), Use::one_way));
  CHECK(sender->worthFrom(Use::one_way) == kLendBytes);
  CHECK(channel.end(Side::sender, false)->offer(data.data(), data.size(), Use::one_way));
}

// Proves: a call that fails ends only when a peer has finished reading a region that it lent.
// Otherwise the program could change the region, and the peer's call could end well with mixed
// data.
TEST_CASE("a failed call waits for a peer that reads a lent region", "[private]") {
  constexpr std::size_t kBytes = 64;
  Channel channel;
  const auto sender = channel.end(Side::sender), receiver = channel.end(Side::receiver);
  answer(channel.memory.data(), 3);
  SlotRing producer(channel.memory.data(), 1, kBytes, {}),
      consumer(channel.memory.data(), 1, kBytes, {});
  const auto region = comm::Region::allocate(kBytes);
  engine::End end;
  end.ring = &producer;
  end.loans = sender.get();
  end.offer = sender->offer(region->data(), kBytes, Use::keep);
  REQUIRE(end.offer);
  engine::OpenLoans loans;
  loans.lend(end, {1, kBytes}, static_cast<const std::byte*>(region->data()));
  REQUIRE(consumer.readable());
  REQUIRE(consumer.readBody(kBytes, receiver.get()));
  std::atomic<bool> ended{false};
  std::thread failing([&] {
    loans.withdraw(base::Clock::now() + std::chrono::minutes(10));
    ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(ended);
  consumer.release();
  failing.join();
  CHECK(loans.empty());
}

// Proves: regions above the limit stay mapped, but only their pages that were read are. Otherwise
// messages from two such regions would map and unmap them in turn.
TEST_CASE("peers' regions above the limit stay mapped, without the pages that were not read",
          "[private]") {
  constexpr std::size_t kBytes = std::size_t{4} << 20, kFileBytes = kBytes + 4096;
  Channel channel;
  const auto sender = channel.end(Side::sender);
  answer(channel.memory.data(), 3);
  PeerRegions peers(kFileBytes + kBytes);
  std::vector<std::unique_ptr<comm::Region>> regions;
  for (int i = 0; i < 3; ++i) regions.push_back(comm::Region::allocate(kBytes));
  for (int round = 0; round < 2; ++round)
    for (const auto& region : regions) {
      const auto loan = sender->offer(region->data(), kBytes, Use::keep);
      REQUIRE(loan);
      static_cast<std::byte*>(region->data())[kBytes - 1] = std::byte{5};
      CHECK(peers.find(*loan, kBytes).get()[kBytes - 1] == std::byte{5});
    }
  std::size_t mapped = 0, complete = 0;
  std::ifstream maps("/proc/self/smaps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("r--s") == std::string::npos || line.find("memfd:rondo") == std::string::npos)
      continue;
    ++mapped;
    while (std::getline(maps, line) && !line.starts_with("Rss:")) continue;
    complete += std::stoul(line.substr(4)) << 10 >= kBytes;
  }
  CHECK(mapped == 3);
  CHECK(complete == 1);
}

// Proves: a region that cannot be opened, because this process has no free descriptor, is not the
// lender's fault.
TEST_CASE("a region that finds no free descriptor names this process's limit", "[private]") {
  Channel channel;
  const auto sender = channel.end(Side::sender);
  answer(channel.memory.data(), 3);
  const auto region = comm::Region::allocate(4096);
  const auto loan = sender->offer(region->data(), 4096, Use::keep);
  REQUIRE(loan);
  PeerRegions peers;
  const NoMoreDescriptors none;
  try {
    peers.find(*loan, 4096);
    FAIL("it was found");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::system);
    CHECK(std::string(error.what())
              .find("this process's limit of open files is " + std::to_string(none.limit())) !=
          std::string::npos);
  }
}

// Proves: if the sender's process has ended, read() throws an error with its rank. If only the
// memory is not there, read() returns false.
TEST_CASE("reading a loan of a process that has ended is an error that names it", "[private]") {
  Channel channel;
  answer(channel.memory.data(), 3);
  const auto receiver = channel.end(Side::receiver);
  const PageBeforeNone page;
  std::array<std::byte, 100> data{};
  Idle child;
  enum class Ending { copied, refused, error };
  const auto read = [&](pid_t pid, const void* at) {
    const Loan loan{{static_cast<std::uint64_t>(pid) << 32 | 0xffffffff, addressOf(at)}};
    try {
      return receiver->read(loan, 0, data.data(), data.size()) ? Ending::copied : Ending::refused;
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::peer_dead);
      CHECK(error.culprit() == 3);
      CHECK(std::string(error.what()).find("rank 3") != std::string::npos);
      return Ending::error;
    }
  };
  CHECK(read(child.pid(), page.end() - 100) == Ending::copied);
  CHECK(read(child.pid(), page.end() - 50) == Ending::refused);
  child.die();
  CHECK(read(child.pid(), page.end() - 100) == Ending::error);
}

// Proves: the same if the memory is in a region that this process has not mapped yet, and that a
// region that is not there is the peer's fault.
TEST_CASE("a region of a process that has ended is an error that names it", "[private]") {
  Channel channel;
  const auto receiver = channel.end(Side::receiver);
  Idle child;
  const auto check = [&](ErrorCode code, const char* says) {
    const Loan loan{{static_cast<std::uint64_t>(child.pid()) << 32 | 1023, 4711, 0}};
    try {
      receiver->find(loan, 100);
      FAIL("it was found");
    } catch (const Error& error) {
      INFO(error.what());
      CHECK(error.code() == code);
      CHECK(error.culprit() == 3);
      CHECK(std::string(error.what()).starts_with("a message of rank 3 cannot be read: "));
      CHECK(std::string(error.what()).find(says) != std::string::npos);
    }
  };
  check(ErrorCode::transport, "cannot open lent memory");
  child.die();
  check(ErrorCode::peer_dead, "its process has ended");
}

} // namespace rondo::test
