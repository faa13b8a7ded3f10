// Tests the v-forms: blocks of any size and place, on every transport, and the refused calls.
#include <atomic>
#include <functional>
#include <thread>

#include "rondo/detail/shims.h"
#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"
#include "support/uneven_case.h"

namespace rondo::test {
TEST_CASE("every v-form moves blocks of any size, order and gap to their places", "[uneven]") {
  for (const char* transport : {"inproc", "shm", "tcp"})
    for (const char* algorithm : {"", "ring,direct"})
      for (int size : kRankCounts) {
        Options options = plainOptions(transport, algorithm);
        options.channel_bytes = 16 << 10;
        options.channel_depth = 4;
        auto ranks = Communicator::createAll(size, options);
        const auto wrong = firstComplaint(onRanks(
            ranks, [](Communicator& comm) { return everyUneven(comm, kWholeGrid ? 10 : 4); }));
        INFO(transport << ", " << size << " ranks, " << algorithm);
        REQUIRE(wrong == "");
      }
}

TEST_CASE("v-forms keep no more than they need: a thousand different ones, mixed with others",
          "[uneven]") {
  auto ranks = Communicator::createAll(3, plainOptions());
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            for (std::size_t i = 0; i < 1000; ++i) {
              const Sizes sizes = {i % 7, i, 1};
              const auto own = static_cast<std::size_t>(comm.rank());
              const Words input = single(comm.rank(), -1, sizes[own]);
              UnevenBuffer output(sizes), due = output;
              for (std::size_t r = 0; r < 3; ++r) due.fill(r, static_cast<int>(r), -1);
              Work work;
              {
                Group group; // copies the blocks before they go out of scope
                const Sizes counts = sizes, offsets = output.offsets;
                work = comm.allGathervAsync(input.data(), sizes[own], output.words.data(),
                                            {counts, offsets}, DataType::uint32);
                group.end();
              }
              work.wait();
              comm.barrier();
              if (output != due) return "wrong in round " + std::to_string(i);
            }
            return {};
          })) == "");
}

namespace {

void requireRefused(const std::string& why, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(std::string(error.what()).find(why) != std::string::npos);
    return;
  }
  FAIL("not refused: " << why);
}

} // namespace

TEST_CASE("invalid blocks are refused by name, and the communicator goes on", "[uneven]") {
  auto ranks = Communicator::createAll(2, plainOptions());
  Words memory(64);
  std::uint32_t* at = memory.data();
  const auto refused = [&](const std::string& why, auto call) {
    requireRefused(why, [&] { call(ranks[0]); });
  };
  constexpr auto kType = DataType::uint32;
  const Sizes one{4}, two{4, 4}, apart{0, 4}, touching{0, 3}, huge{4, std::size_t{1} << 62};
  refused("1 counts and 2 offsets for 2 ranks", [&](Communicator& comm) {
    comm.gatherv(at, 4, at + 32, {one, apart}, kType, 0);
  });
  refused("blocks 0 and 1 of the output overlap", [&](Communicator& comm) {
    comm.allGatherv(at, 4, at + 32, {two, touching}, kType);
  });
  refused("exceed the address space", [&](Communicator& comm) {
    comm.allGatherv(at, 4, at + 32, {huge, apart}, kType);
  });
  refused("has 3 elements in the input and 4 in the output", [&](Communicator& comm) {
    comm.allGatherv(at, 3, at + 32, {two, apart}, kType);
  });
  refused("output is null, block 0 has 4", [&](Communicator& comm) {
    comm.allGatherv(at, 4, nullptr, {two, apart}, kType);
  });
  refused("cannot be done in place", [&](Communicator& comm) {
    comm.allToAllv(at, {two, apart}, at, {two, apart}, kType);
  });
  refused("overlap, but not in place", [&](Communicator& comm) {
    comm.scatterv(at, {two, apart}, at + 1, 4, kType, 0);
  });
  refused("root 2 is not a rank", [&](Communicator& comm) {
    comm.gatherv(at, 4, at + 32, {two, apart}, kType, 2);
  });
  refused("not defined on float", [&](Communicator& comm) {
    comm.reduceScatterv(at, {two, apart}, at + 32, DataType::float32, ReduceOp::bxor);
  });
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            return gatherv({2, 0, false, false}, comm);
          })) == "");
}

TEST_CASE("tables of call() that do not fit the call are refused by name", "[uneven]") {
  auto ranks = Communicator::createAll(2, plainOptions());
  Words memory(64);
  std::uint32_t* at = memory.data();
  constexpr auto kType = DataType::uint32;
  const Sizes one{4}, two{4, 4}, apart{0, 4}, zero{0}, five{5};
  const auto average = [&](std::size_t count, const Blocks& output) {
    const CollectiveCall::Tables tables{{two, apart}, output};
    return [&, count, tables](Communicator& comm) {
      comm.call(
          {Collective::reducescatter, at, at + 32, count, kType, ReduceOp::avg, 0, false, &tables});
    };
  };
  requireRefused("a single block of 4 elements, but its table says 4 at 5", [&] {
    average(4, {one, five})(ranks[0]);
  });
  requireRefused("a single block of 0 elements, but its table says 4 at 0", [&] {
    average(0, {one, zero})(ranks[0]);
  });
  requireRefused("has no v-form", [&] {
    const CollectiveCall::Tables tables{{one, zero}, {one, zero}};
    ranks[0].call({Collective::allreduce, at, at + 32, 4, kType, ReduceOp::sum, 0, false, &tables});
  });
  requireRefused("a buffer that this rank does not use", [&] {
    const CollectiveCall::Tables tables{{one, zero}, {two, {}}};
    ranks[0].call({Collective::gather, at, nullptr, 4, kType, ReduceOp::sum, 1, false, &tables});
  });
}

// Proves: ranks that pass different counts for a block are told, also if the counts differ by whole
// messages, and no rank gets part of a block without an error.
TEST_CASE("counts of a block that differ by whole messages are a mismatch", "[uneven]") {
  constexpr std::size_t kMessage = 4096 / sizeof(std::uint32_t);
  for (const char* transport : {"inproc", "shm", "tcp"})
    for (const std::size_t sent : {1, 2, 3, 4}) {
      const std::size_t received = 2;
      if (sent == received) continue;
      Options options = plainOptions(transport);
      options.channel_bytes = 16 << 10;
      options.channel_depth = 4;
      auto ranks = Communicator::createAll(2, options);
      std::vector<Caught> seen(2);
      onRanks(ranks, [&](Communicator& comm) -> std::string {
        Words input(4 * kMessage), output(4 * kMessage);
        const Sizes counts = {0, received * kMessage}, offsets = {0, 0};
        seen[static_cast<std::size_t>(comm.rank())] = caught([&] {
          comm.gatherv(input.data(), comm.rank() == 0 ? 0 : sent * kMessage, output.data(),
                       {counts, offsets}, DataType::uint32, 0);
          comm.barrier(); // a sender may be ahead of the error
        });
        return {};
      });
      INFO(transport << ", rank 1 sends " << sent << " messages, rank 0 expects " << received);
      for (const Caught& one : seen)
        CHECK(says(one, ErrorCode::mismatch, {"rank 1", "pass different counts for this block"}));
    }
}

// Proves: known blocks do not skip the check of the buffers' positions.
TEST_CASE("blocks that were valid before are refused in wrong buffers", "[uneven]") {
  auto ranks = Communicator::createAll(2, plainOptions());
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            const Sizes counts{4, 4}, offsets{0, 8};
            Words memory(64);
            std::uint32_t* const at = memory.data();
            const auto exchange = [&](std::uint32_t* input, std::uint32_t* output) {
              comm.allToAllv(input, {counts, offsets}, output, {counts, offsets}, DataType::uint32);
            };
            const auto right = [&](std::uint32_t* input, std::uint32_t* output) {
              for (std::size_t to = 0; to < 2; ++to)
                for (std::size_t i = 0; i < 4; ++i)
                  input[offsets[to] + i] = word(comm.rank(), static_cast<int>(to), i);
              exchange(input, output);
              for (std::size_t from = 0; from < 2; ++from)
                for (std::size_t i = 0; i < 4; ++i)
                  if (output[offsets[from] + i] != word(static_cast<int>(from), comm.rank(), i))
                    return false;
              return true;
            };
            const auto refused = [&](std::uint32_t* input, std::uint32_t* output) {
              try {
                exchange(input, output);
              } catch (const Error& error) {
                return error.code() == ErrorCode::invalid_argument;
              }
              return false;
            };
            for (int round = 0; round < 3; ++round) {
              if (!right(at + 4, at)) return "wrong where blocks alternate";
              if (!refused(at + 2, at)) return "not refused where they overlap";
              if (!right(at + 32, at)) return "wrong where they are apart";
              if (!refused(at, at)) return "not refused where they are the same";
              if (!refused(nullptr, at)) return "not refused without an input";
              if (!refused(at, nullptr)) return "not refused without an output";
              if (!right(at, at + 4)) return "wrong where they alternate the other way round";
            }
            return {};
          })) == "");
}

TEST_CASE("sizes that sender and receiver see differently are a mismatch on every rank",
          "[uneven]") {
  // Fewer and more elements than expected, within a message and by whole messages (slots of 1024
  // words).
  for (const char* transport : {"inproc", "tcp"})
    for (std::size_t sent : {1, 999, 1001, 1024, 3072, 4000}) {
      Options options = plainOptions(transport);
      options.channel_bytes = 16 << 10;
      options.channel_depth = 4;
      auto ranks = Communicator::createAll(3, options);
      std::atomic<int> mismatches{0};
      onRanks(ranks, [&](Communicator& comm) -> std::string {
        const Sizes sizes = {10, 1000, 20}, offsets = {0, 100, 2000};
        const Words input(std::max<std::size_t>(sent, 20));
        Words output(3000);
        const std::size_t own =
            comm.rank() == 1 ? sent : sizes[static_cast<std::size_t>(comm.rank())];
        try {
          comm.gatherv(input.data(), own, output.data(), {sizes, offsets}, DataType::uint32, 0);
          comm.barrier();
          comm.barrier();
        } catch (const Error& error) {
          if (error.code() == ErrorCode::mismatch) ++mismatches;
        }
        return {};
      });
      INFO(transport << ", " << sent << " in place of 1000");
      CHECK(mismatches == 3);
    }

  auto ranks = Communicator::createAll(2, plainOptions());
  const auto complaints = onRanks(ranks, [&](Communicator& comm) -> std::string {
    const Sizes sizes = {4, comm.rank() == 0 ? 5u : 6u}, offsets = {0, 10};
    const Words input(16);
    Words output(32);
    comm.allGatherv(input.data(), sizes[static_cast<std::size_t>(comm.rank())], output.data(),
                    {sizes, offsets}, DataType::uint32);
    return {};
  });
  for (const std::string& complaint : complaints) {
    INFO(complaint);
    CHECK(complaint.find("AllGatherv #1 (9 uint32)") != std::string::npos);
    CHECK(complaint.find("AllGatherv #1 (10 uint32)") != std::string::npos);
  }
}

TEST_CASE("a v-form and its plain form are different calls", "[uneven]") {
  auto ranks = Communicator::createAll(2, plainOptions());
  const auto complaints = onRanks(ranks, [&](Communicator& comm) -> std::string {
    const Sizes sizes = {4, 4}, offsets = {0, 4};
    const Words input(4);
    Words output(8);
    if (comm.rank() == 0) comm.allGather(input.data(), output.data(), 4, DataType::uint32);
    else comm.allGatherv(input.data(), 4, output.data(), {sizes, offsets}, DataType::uint32);
    return {};
  });
  for (const std::string& complaint : complaints)
    CHECK(complaint.find("AllGatherv #1") != std::string::npos);
}

TEST_CASE("the poll is called by the waiting thread, while it waits, and by no other", "[uneven]") {
  for (const bool async : {false, true}) {
    auto ranks = Communicator::createAll(2, plainOptions());
    std::atomic<int> calls{0}, foreign{0};
    onRanks(ranks, [&](Communicator& comm) -> std::string {
      if (comm.rank() == 1) {
        while (calls == 0) std::this_thread::yield(); // ends because rank 0 polls
        comm.barrier();
        return {};
      }
      const auto self = std::this_thread::get_id();
      detail::Shims::whileWaiting(comm, [&calls, &foreign, self] {
        ++calls;
        if (std::this_thread::get_id() != self) ++foreign;
      });
      if (async) comm.barrierAsync().wait();
      else comm.barrier();
      return {};
    });
    CHECK(calls > 0);
    CHECK(foreign == 0);
  }
}

} // namespace rondo::test
