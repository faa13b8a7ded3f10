// Message numbers that exceed the 32 bits of a flag.
#include "kernels/cuda/plan/collective_call.h"
#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// Sets the state after this many messages in every channel.
void jumpTo(World& world, std::uint64_t number) {
  for (auto& [name, channel] : world.channels()) {
    channel->sender.as<device::Position>()->number = number;
    channel->receiver.as<device::Position>()->number = number;
    *channel->credit.as<std::uint64_t>() = number;
    *channel->inbox.as<std::uint64_t>() = number;
  }
}

Call broadcastOf(std::size_t count) {
  return callOf(*plan::findAlgorithm("chain"),
                {.collective = Collective::broadcast, .count = count, .type = DataType::int32}, 2);
}

} // namespace

// Proves: calls continue when the low 31 and 32 bits of the number wrap, in slots that were never
// written. There a flag of 0 would be taken for a message.
TEST_CASE("messages keep arriving when the flag's bits begin again") {
  for (device::Protocol protocol : {device::Protocol::simple, device::Protocol::low_latency})
    for (const std::uint64_t border : {std::uint64_t{1} << 31, std::uint64_t{1} << 32}) {
      World world(2, {protocol, 8, 256});
      REQUIRE(world.run({broadcastOf(1)}, 1) == "");
      jumpTo(world, border - 4);
      REQUIRE(world.run({broadcastOf(50), broadcastOf(1021)}) == "");
    }
}

// Proves: a line is accepted only when both of its packets have arrived. They are stored one after
// the other, so a reader may see one new and one old packet; with threads this is rare.
TEST_CASE("a line with one new and one old packet is not accepted") {
  const std::uint32_t due = device::flagOf(7), old = device::flagOf(6);
  const auto line = [](std::uint64_t data, std::uint32_t first, std::uint32_t second) {
    return device::Packets{device::Packets::of(data, first).first,
                           device::Packets::of(data, second).second};
  };
  constexpr std::uint64_t kData = 0x0123456789abcdef;
  CHECK(line(kData, due, due).carry(due));
  CHECK(line(kData, due, due).data() == kData);
  CHECK_FALSE(line(kData, due, old).carry(due));
  CHECK_FALSE(line(kData, old, due).carry(due));
}

// Proves: a flag is always overwritten before its value is used again. For any small messages, each
// slot is rewritten to its end from time to time.
TEST_CASE("every slot is rewritten before a flag's value is used again") {
  constexpr std::uint64_t kDepth = 3, kSweep = device::kSweepMask + 1;
  const device::RingSize size{device::Protocol::low_latency, kDepth, 256};
  World world(2, size);
  REQUIRE(world.run({broadcastOf(1021)}, 1) == ""); // old flags everywhere
  jumpTo(world, kSweep - 2);
  REQUIRE(world.run({broadcastOf(1)}, 6) == "");
  const auto& channel = *world.channels().at({0, 1, 0});
  const device::Ring ring = size.ring(channel.inbox.data(), channel.credit.data(), nullptr);
  for (std::uint64_t slot = 0; slot < kDepth; ++slot) {
    const auto* lines = reinterpret_cast<const device::Packets*>(ring.slots + slot * ring.stride);
    for (std::uint64_t line = 0; line < ring.stride / sizeof(device::Packets); ++line) {
      INFO("slot " << slot << ", line " << line);
      CHECK((lines[line].first >> 32) >= device::flagOf(kSweep - 1));
      CHECK((lines[line].second >> 32) >= device::flagOf(kSweep - 1));
    }
  }
}

} // namespace rondo::test
