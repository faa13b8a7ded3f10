// Tests shared memory that was released, and shared memory in forked children.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "support/caught.h"
#include "support/paths.h"
#include "support/ranks.h"
#include "support/shared_memory.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using Words = std::span<std::uint32_t>;
constexpr auto kType = DataType::uint32;
constexpr std::size_t kBytes = 1 << 20, kWords = kBytes / sizeof(std::uint32_t);

/// More than the channels of three ranks and a few regions.
constexpr std::size_t kFewKib = 24 << 10;

Words wordsOf(const Buffer& buffer) {
  return {static_cast<std::uint32_t*>(buffer.data()), buffer.size() / sizeof(std::uint32_t)};
}

bool all(Words words, std::uint32_t value) {
  return std::all_of(words.begin(), words.end(), [value](std::uint32_t w) { return w == value; });
}

/// The result of `body` in a forked child, which starts after `before` has run in the parent.
int inChild(const std::function<bool()>& body, const std::function<void()>& before = {}) {
  std::array<int, 2> go{};
  if (::pipe(go.data()) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::_exit(::read(go[0], &byte, 1) == 1 && body() ? 0 : 1);
  }
  if (before) before();
  const bool told = ::write(go[1], "x", 1) == 1;
  int status = -1;
  ::waitpid(child, &status, 0);
  ::close(go[0]);
  ::close(go[1]);
  return told ? status : -1;
}

/// kBytes of the program's own memory.
struct PrivateMemory {
  std::uint32_t* const words = static_cast<std::uint32_t*>(
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  PrivateMemory() = default;
  PrivateMemory(const PrivateMemory&) = delete;
  PrivateMemory& operator=(const PrivateMemory&) = delete;
  ~PrivateMemory() { ::munmap(words, kBytes); }
};

/// For memory of both origins: from allocate(), and registered memory of the program.
void withBuffers(const std::function<void(std::vector<Communicator>&, Buffer&)>& body) {
  for (const bool own : {false, true}) {
    INFO((own ? "registerBuffer" : "allocate"));
    auto ranks = Communicator::createAll(2, plainOptions("shm"));
    void* memory =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Buffer buffer = own ? ranks[0].registerBuffer(memory, kBytes) : ranks[0].allocate(kBytes);
    std::fill_n(wordsOf(buffer).begin(), kWords, 7u);
    body(ranks, buffer);
    buffer.release();
    ::munmap(memory, kBytes);
  }
}

} // namespace

TEST_CASE("released memory is given back, even if peers have read it", "[region]") {
  auto ranks = Communicator::createAll(2, plainOptions("shm"));
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            for (int round = 0; round < 64; ++round) {
              Buffer buffer = comm.allocate(kBytes);
              std::fill_n(wordsOf(buffer).begin(), kWords, 1u);
              comm.allReduce(buffer.data(), buffer.data(), kWords, kType, ReduceOp::sum);
              if (!all(wordsOf(buffer), 2)) return "wrong sum";
            }
            comm.barrier();
            return {};
          })) == "");
  CHECK(sharedMemory().resident_kib < kFewKib);
}

// Proves: the whole of a call's buffer counts, not only its beginning.
TEST_CASE("a buffer is not released while a call uses the end of its memory", "[region]") {
  auto ranks = Communicator::createAll(2, plainOptions("shm"));
  void* const memory =
      ::mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const words = static_cast<std::uint32_t*>(memory);
  std::fill_n(words, 2 * kWords, 3u);
  Buffer second = ranks[0].registerBuffer(words + kWords, kBytes);
  Work sent = ranks[0].sendAsync(words, kWords + 1, kType, 1); // one word of it
  CHECK(says(caught([&] { second.release(); }), ErrorCode::invalid_argument, {"released while"}));
  std::vector<std::uint32_t> received(kWords + 1);
  ranks[1].recvAsync(received.data(), received.size(), kType, 0).wait();
  sent.wait();
  CHECK(all(received, 3));
  sent = ranks[0].sendAsync(words, kWords, kType, 1); // ends where it begins
  second.release();
  ranks[1].recvAsync(received.data(), kWords, kType, 0).wait();
  sent.wait();
  ::munmap(memory, 2 * kBytes);
}

// Proves: calls of all communicators count, whichever registers the memory or releases it.
TEST_CASE("memory is neither registered nor released while a call of any communicator uses it",
          "[region]") {
  const PrivateMemory memory;
  std::uint32_t* const words = memory.words;
  auto ranks = Communicator::createAll(2, plainOptions("shm"));
  auto others = Communicator::createAll(2, plainOptions("shm"));
  std::vector<std::uint32_t> other(kWords, 4u);
  Work call = others[0].recvAsync(words, kWords, kType, 1);
  for (Communicator* comm : {&ranks[0], &others[0]})
    CHECK(says(caught([&] { comm->registerBuffer(words, kBytes); }), ErrorCode::invalid_argument,
               {"registerBuffer: called while", "of rank 0"}));
  others[1].sendAsync(other.data(), kWords, kType, 0).wait();
  call.wait();
  CHECK(all({words, kWords}, 4));
  Buffer buffer = ranks[0].registerBuffer(words, kBytes);
  call = others[0].recvAsync(words, kWords, kType, 1);
  CHECK(says(caught([&] { buffer.release(); }), ErrorCode::invalid_argument, {"released while"}));
  others[1].sendAsync(other.data(), kWords, kType, 0).wait();
  call.wait();
  buffer.release();
  CHECK(all({words, kWords}, 4));
}

TEST_CASE("memory that is registered twice stays shared until both buffers are released",
          "[region]") {
  const PrivateMemory memory;
  std::uint32_t* const words = memory.words;
  auto ranks = Communicator::createAll(2, plainOptions("shm"));
  auto others = Communicator::createAll(2, plainOptions("shm"));
  const std::vector<std::uint32_t> other(kWords, 3u);
  Buffer first = ranks[0].registerBuffer(words, kBytes);
  Work received = others[0].recvAsync(words, kWords, kType, 1);
  Buffer second = others[0].registerBuffer(words, kBytes);
  CHECK(second.data() == words);
  CHECK(second.size() == kBytes);
  first.release();
  CHECK(says(caught([&] { second.release(); }), ErrorCode::invalid_argument, {"released while"}));
  others[1].sendAsync(other.data(), kWords, kType, 0).wait();
  received.wait();
  second.release();
  first = ranks[0].registerBuffer(words, kBytes); // it is private again
  first.release();
  CHECK(all({words, kWords}, 3));
}

TEST_CASE("memory that a process releases does not stay mapped in its peers", "[region]") {
  FILE* output = ::popen("timeout 60 env RONDO_TRANSPORT=shm RONDO_HEARTBEAT=10 " RONDO_COMMAND
                         " run -p 3 -- " RONDO_TEST_PROGRAMS "/program_lending 64",
                         "r");
  int ranks = 0, rank = 0;
  for (std::size_t mapped = 0, resident = 0;
       std::fscanf(output, "mapped %d %zu %zu\n", &rank, &mapped, &resident) == 3; ++ranks) {
    INFO("rank " << rank);
    CHECK(mapped < kFewKib + (64 << 10)); // of 64 times 8 MiB per peer, at most the last ones
    CHECK(resident < kFewKib);
  }
  ::pclose(output);
  CHECK(ranks == 3);
}

TEST_CASE("a forked child reads registered memory, and what it writes stays its own", "[region]") {
  withBuffers([](std::vector<Communicator>& ranks, Buffer& buffer) {
    const Words words = wordsOf(buffer);
    CHECK(inChild([&] {
            if (!all(words, 7)) return false;
            std::fill(words.begin(), words.end(), 9u);
            return all(words, 9);
          }) == 0);
    REQUIRE(all(words, 7));
    // And peers still read the parent's memory.
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              std::vector<std::uint32_t> in(kWords, 1u), out(kWords);
              comm.allReduce(comm.rank() == 0 ? words.data() : in.data(), out.data(), kWords, kType,
                             ReduceOp::sum);
              return all(out, 8) ? "" : "wrong sum";
            })) == "");
  });
}

TEST_CASE("a forked child keeps the contents when its parent releases the memory", "[region]") {
  withBuffers([](std::vector<Communicator>&, Buffer& buffer) {
    const Words words = wordsOf(buffer);
    CHECK(inChild([&] { return all(words, 7); }, [&] { buffer.release(); }) == 0);
  });
}

TEST_CASE("a child that releases a buffer leaves the parent's alone", "[region]") {
  withBuffers([](std::vector<Communicator>&, Buffer& buffer) {
    const Words words = wordsOf(buffer);
    CHECK(inChild([&] {
            Buffer dropped = std::move(buffer);
            return true;
          }) == 0);
    CHECK(all(words, 7));
  });
}

TEST_CASE("a forked child maps no memory that its parent's peers see", "[region]") {
  withBuffers([](std::vector<Communicator>& ranks, Buffer&) {
    onRanks(ranks, [](Communicator& comm) {
      comm.barrier();
      return std::string();
    });
    REQUIRE(sharedMemory().writable > 0);
    CHECK(inChild([] { return sharedMemory().writable == 0; }) == 0);
  });
}

} // namespace rondo::test
