// Tests memory that peers read in place: results, no waiting for late peers, and safe release.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "plan/registry.h"
#include "support/ranks.h"
#include "support/test.h"
#include "transports/tuning.h"

namespace rondo::test {
namespace {

using Words = std::vector<std::uint32_t>;
constexpr auto kType = DataType::uint32;
/// Elements of a message that is always lent, also when two ranks swap inputs; and of a slot.
constexpr std::size_t kLent = transport::kLendBytes / sizeof(std::uint32_t);
constexpr std::size_t kExchanged = transport::kLendExchangedBytes / sizeof(std::uint32_t);
constexpr std::size_t kSlot = transport::kMappedSize.slot_bytes / sizeof(std::uint32_t);

std::uint32_t word(int rank, std::size_t i) {
  return static_cast<std::uint32_t>(rank + 1) * 1000003u + static_cast<std::uint32_t>(i) * 7u;
}

/// Input and output of one rank, in memory that the transport can lend.
struct Memory {
  Buffer buffer;
  std::vector<std::byte> own;
  std::uint32_t* at = nullptr;

  Memory(Communicator& comm, std::size_t words, bool mapped) {
    if (mapped) {
      buffer = comm.allocate(words * sizeof(std::uint32_t));
      at = static_cast<std::uint32_t*>(buffer.data());
    } else {
      own.resize(words * sizeof(std::uint32_t));
      at = reinterpret_cast<std::uint32_t*>(own.data());
    }
  }
};

std::string allReduce(Communicator& comm, std::size_t count, bool mapped, bool in_place) {
  Memory input(comm, count, mapped), output(comm, count, mapped);
  std::uint32_t* const out = in_place ? input.at : output.at;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < count; ++i) input.at[i] = word(comm.rank(), i);
    comm.allReduce(input.at, out, count, kType, ReduceOp::sum);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t due = 0;
      for (int r = 0; r < comm.size(); ++r) due += word(r, i);
      if (out[i] != due) return "element " + std::to_string(i) + " is wrong";
    }
  }
  return {};
}

} // namespace

TEST_CASE("every all-reduce algorithm gives the same results with lent messages", "[buffer]") {
  for (const char* transport : {"inproc", "shm"})
    for (const plan::Algorithm* algorithm : plan::algorithms())
      for (const int size : {2, 3, 4, 8}) {
        if (!algorithm->supports({Collective::allreduce, size, 0, 0})) continue;
        if (!kWholeGrid && size > 3) continue;
        auto ranks =
            Communicator::createAll(size, plainOptions(transport, std::string(algorithm->name)));
        const bool mapped = std::string(transport) == "shm";
        const auto wrong = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
          for (const std::size_t count :
               {kExchanged + 1, kLent * static_cast<std::size_t>(size) + 1, 5 * kSlot + 3})
            for (const bool in_place : {false, true})
              if (auto bad = allReduce(comm, count, mapped, in_place); !bad.empty()) return bad;
          return {};
        }));
        INFO(algorithm->name << " on " << transport << ", " << size << " ranks");
        REQUIRE(wrong == "");
      }
}

TEST_CASE("lending does not make a sender wait for a receiver that has not called yet",
          "[buffer]") {
  for (const char* transport : {"inproc", "shm"}) {
    auto ranks = Communicator::createAll(2, plainOptions(transport));
    const std::size_t count = 4 * kSlot; // half of the channel's slots
    std::atomic<bool> sent{false};
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              Memory data(comm, count, true);
              // Both ends open the channel first.
              if (comm.rank() == 0) {
                comm.send(data.at, 1, kType, 1);
                for (std::size_t i = 0; i < count; ++i) data.at[i] = word(0, i);
                comm.send(data.at, count, kType, 1);
                std::memset(data.at, 0, count * sizeof(std::uint32_t)); // the sender's again
                sent = true;
                return {};
              }
              comm.recv(data.at, 1, kType, 0);
              while (!sent) std::this_thread::yield();
              comm.recv(data.at, count, kType, 0);
              for (std::size_t i = 0; i < count; ++i)
                if (data.at[i] != word(0, i)) return "element " + std::to_string(i) + " is wrong";
              return {};
            })) == "");
  }
}

TEST_CASE("ranks that swap large blocks in place do not wait for each other", "[buffer]") {
  for (const char* algorithm : {"butterfly", "halving_doubling", "oneshot"}) {
    auto ranks = Communicator::createAll(4, plainOptions("inproc", algorithm));
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              for (int i = 0; i < (kWholeGrid ? 20 : 3); ++i)
                if (auto bad = allReduce(comm, 9 * kLent + 5, false, true); !bad.empty())
                  return bad;
              return {};
            })) == "");
  }
}

TEST_CASE("after an abort memory may be freed at once, even if a peer was reading it", "[buffer]") {
  for (int round = 0; round < (kWholeGrid ? 60 : 15); ++round) {
    auto ranks = Communicator::createAll(3, plainOptions("inproc"));
    std::thread stop([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(200 + 50 * round));
      ranks[static_cast<std::size_t>(round % 3)].abort("test");
    });
    std::atomic<int> aborted{0};
    onRanks(ranks, [&](Communicator& comm) -> std::string {
      try {
        for (;;) {
          // New memory for each call: sanitizers would find a peer that still reads it after the
          // error, and it would often crash.
          auto input = std::make_unique<Words>(12 * kLent, 1u);
          auto output = std::make_unique<Words>(12 * kLent);
          comm.allReduce(input->data(), output->data(), input->size(), kType, ReduceOp::sum);
          for (const std::uint32_t one : *output)
            if (one != 3) return "a call that was successful gave " + std::to_string(one);
        }
      } catch (const Error& error) {
        if (error.code() == ErrorCode::aborted) ++aborted;
      }
      return {};
    });
    stop.join();
    CHECK(aborted == 3);
  }
}

TEST_CASE("a buffer in use cannot be released before the call has ended", "[buffer]") {
  auto ranks = Communicator::createAll(2, plainOptions("shm"));
  Buffer buffer = ranks[0].allocate(100);
  CHECK(buffer.size() == 100);
  CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096 == 0);
  CHECK(static_cast<char*>(buffer.data())[99] == 0);
  Work work = ranks[0].recvAsync(buffer.data(), 10, kType, 1);
  try {
    buffer.release();
    FAIL("released");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    INFO(error.what());
    CHECK(std::string(error.what()).find("Recv") != std::string::npos);
  }
  const Words data(10, 7u);
  std::thread sender([&] { ranks[1].send(data.data(), 10, kType, 0); });
  work.wait();
  sender.join();
  CHECK(static_cast<std::uint32_t*>(buffer.data())[9] == 7);
  buffer.release();
  CHECK(buffer.data() == nullptr);
  buffer.release();
}

TEST_CASE("memory is registered at its address, and private again afterwards", "[buffer]") {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t bytes = 32 * page, count = bytes / sizeof(std::uint32_t);
  auto ranks = Communicator::createAll(2, plainOptions("shm"));
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            void* memory = ::mmap(nullptr, 3 * bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            auto* data = static_cast<std::uint32_t*>(memory) + count; // the middle third
            for (std::size_t i = 0; i < count; ++i) data[i] = word(comm.rank(), i);
            {
              Buffer buffer = comm.registerBuffer(data, bytes);
              if (buffer.data() != data || buffer.size() != bytes) return "another place";
              comm.allReduce(data, data, count, kType, ReduceOp::sum);
            }
            for (std::size_t i = 0; i < count; ++i)
              if (data[i] != word(0, i) + word(1, i)) return "element " + std::to_string(i);
            data[0] = 5; // private memory, which can be written and unmapped like any other
            return ::munmap(memory, 3 * bytes) == 0 ? "" : "not unmapped";
          })) == "");
}

TEST_CASE("memory that cannot be shared is refused with the reason", "[buffer]") {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto comm = std::move(Communicator::createAll(1, plainOptions())[0]);
  const auto refused = [&](void* data, std::size_t bytes) {
    try {
      comm.registerBuffer(data, bytes);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::data;
  };
  const auto map = [&](int protection, int flags) {
    return static_cast<std::byte*>(
        ::mmap(nullptr, 2 * page, protection, flags | MAP_ANONYMOUS, -1, 0));
  };
  std::byte* plain = map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
  std::byte* constant = map(PROT_READ, MAP_PRIVATE);
  std::byte* shared = map(PROT_READ | PROT_WRITE, MAP_SHARED);
  CHECK(refused(nullptr, page) == ErrorCode::invalid_argument);
  CHECK(refused(plain + 1, page) == ErrorCode::invalid_argument);
  CHECK(refused(plain, page - 1) == ErrorCode::invalid_argument);
  CHECK(refused(plain, 0) == ErrorCode::invalid_argument);
  CHECK(refused(constant, page) == ErrorCode::unsupported);
  CHECK(refused(shared, page) == ErrorCode::unsupported);
  ::munmap(plain + page, page);
  CHECK(refused(plain, 2 * page) == ErrorCode::unsupported); // half of it is not mapped
  ::munmap(plain, page);
  ::munmap(constant, 2 * page);
  ::munmap(shared, 2 * page);
}

} // namespace rondo::test
