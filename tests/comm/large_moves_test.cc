// Tests calls that only move data, with results so large that they are written past the caches.
#include <cstdint>
#include <vector>

#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::uint8_t due(std::size_t block, std::size_t at) {
  return static_cast<std::uint8_t>(at * 31 + at / 4096 * 7 + block * 101);
}

void fill(std::uint8_t* to, std::size_t block, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) to[i] = due(block, i);
}

/// "" or the first wrong byte of the blocks that begin at `from`.
std::string check(const char* call, const std::uint8_t* from, std::size_t block,
                  std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (from[i] != due(block, i))
      return std::string(call) + ": block " + std::to_string(block) + ", byte " + std::to_string(i);
  return {};
}

/// Calls each collective that only moves data, not in place, with blocks of `bytes` that begin
/// `apart` bytes after a multiple of 64.
std::string everyMove(Communicator& comm, std::size_t bytes, std::size_t apart) {
  const auto p = static_cast<std::size_t>(comm.size()), own = static_cast<std::size_t>(comm.rank());
  const auto aligned = [apart](Bytes& memory) {
    const auto past = reinterpret_cast<std::uintptr_t>(memory.data()) % 64;
    return memory.data() + (64 - past) + apart;
  };
  Bytes ins(p * bytes + 128), outs(ins.size());
  std::uint8_t *const in = aligned(ins), *const out = aligned(outs);
  std::string wrong;
  const auto blocks = [&](const char* call, const auto& blockAt) {
    for (std::size_t r = 0; r < p && wrong.empty(); ++r)
      wrong = check(call, out + r * bytes, blockAt(r), bytes);
    std::fill(outs.begin(), outs.end(), std::uint8_t{0});
  };
  constexpr auto kType = DataType::uint8;
  constexpr int kRoot = 1;

  fill(in, own, bytes);
  comm.broadcast(in, out, bytes, kType, kRoot);
  wrong = check("broadcast", out, kRoot, bytes);
  comm.gather(in, out, bytes, kType, kRoot);
  if (own == kRoot) blocks("gather", [](std::size_t r) { return r; });
  comm.allGather(in, out, bytes, kType);
  blocks("allgather", [](std::size_t r) { return r; });
  for (std::size_t r = 0; r < p; ++r) fill(in + r * bytes, own * p + r, bytes);
  comm.allToAll(in, out, bytes, kType);
  blocks("alltoall", [&](std::size_t r) { return r * p + own; });
  comm.scatter(in, out, bytes, kType, kRoot);
  if (wrong.empty()) wrong = check("scatter", out, kRoot * p + own, bytes);
  return wrong;
}

} // namespace

TEST_CASE("results that do not fit the caches are complete, wherever their blocks begin",
          "[large]") {
  constexpr std::size_t kBytes = (std::size_t{4} << 20) + 77; // odd, and not of whole lines
  for (const char* transport : {"inproc", "shm", "tcp"})
    for (const int size : {2, 3})
      for (const std::size_t apart : {0, 13}) {
        auto ranks = Communicator::createAll(size, plainOptions(transport));
        INFO(transport << ", " << size << " ranks, " << apart << " bytes after a line's begin");
        REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) {
                  return everyMove(comm, kBytes, apart);
                })) == "");
      }
}

} // namespace rondo::test
