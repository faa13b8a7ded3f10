// A channel of the plan kernel: slots and flags in memory that both ends see. Plain data for both
// sides; how the words are read and written is in kernels/cuda/plan/kernel.cuh, why that is enough
// in kernels/cuda/plan/PROOFS.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/host_device.h"

namespace rondo::device {

/// How a message and the news of it travel.
enum class Protocol : std::uint8_t {
  /// Each 8-byte packet is 4 bytes of the message and 4 of flag: no fence, half the bandwidth.
  low_latency,
  /// The message, then one number that says it is there.
  simple,
};

/// Where an end of a ring stands: the number of the last message it sent or took, and the slot of
/// the next one. In the memory of the rank whose end it is; survives from launch to launch.
struct Position {
  std::uint64_t number = 0;
  std::uint64_t slot = 0;
};

/// What stands beside a slot (simple).
struct Label {
  std::uint64_t call = 0;          ///< see labelFor()
  std::uint64_t bytes = 0;         ///< of the message, for a host that moves it on
  const std::byte* lent = nullptr; ///< not null: the message is not in the slot, but here
  std::byte* landing = nullptr;    ///< not null: where the answer is to be written
};

/// One end of a ring, with the addresses that its rank uses.
///
/// Messages are numbered from 1. Numbers only grow, and nothing is ever reset, so a launch needs to
/// know nothing about the ones before it but what stands in memory.
///
/// Each message carries a label, by which its receiver sees that both ends are in the same call.
///
/// Two parts. The *inbox* (flag, labels, slots) lies with the receiver, who polls it; the *credit*
/// lies with the sender, who polls that. Each part is written by the other end only.
struct Ring {
  std::uint64_t* published = nullptr; ///< inbox: number of the last message that is there (simple)
  Label* labels = nullptr;            ///< inbox: one per slot (simple)
  std::byte* slots = nullptr;         ///< inbox
  std::uint64_t* consumed = nullptr;  ///< credit: number of the last message that was taken
  Position* position = nullptr;       ///< this end's
  std::uint64_t depth = 1;
  std::uint64_t stride = 0; ///< bytes from slot to slot
};

/// Bytes between words that different ranks write, and what parts are aligned to: two sectors of a
/// cache line may be fetched together.
inline constexpr std::size_t kRingLine = 128;

/// Low-latency slots are swept (written to their end, whatever the message's size) when the
/// number's low bits are below the depth: each packet is rewritten long before its flag comes
/// round.
inline constexpr std::uint64_t kSweepMask = (std::uint64_t{1} << 24) - 1;

/// The flag of message `number`: never what fresh memory holds, the same again after 2^31 messages.
constexpr RONDO_HOST_DEVICE std::uint32_t flagOf(std::uint64_t number) {
  return static_cast<std::uint32_t>(number) | 0x80000000u;
}

/// A line of a low-latency slot: two packets, each written in one piece. The first line of a
/// message is its label, the others are its data.
struct Packets {
  std::uint64_t first = 0, second = 0; ///< each 4 bytes of data, then the flag

  static constexpr std::size_t kDataBytes = 8;

  RONDO_HOST_DEVICE bool carry(std::uint32_t flag) const {
    return first >> 32 == flag && second >> 32 == flag;
  }
  RONDO_HOST_DEVICE std::uint64_t data() const { return (first & 0xffffffffu) | second << 32; }
  static RONDO_HOST_DEVICE Packets of(std::uint64_t data, std::uint32_t flag) {
    const std::uint64_t high = static_cast<std::uint64_t>(flag) << 32;
    return {(data & 0xffffffffu) | high, data >> 32 | high};
  }
};

/// How large the parts of a ring are.
struct RingSize {
  Protocol protocol = Protocol::simple;
  std::uint64_t depth = 1;
  std::size_t slot_bytes = 0; ///< largest message

  constexpr std::uint64_t stride() const {
    return padded(protocol == Protocol::low_latency ? sizeof(Packets) + 2 * slot_bytes
                                                    : slot_bytes);
  }
  constexpr std::size_t inboxBytes() const { return slotsAt() + depth * stride(); }
  static constexpr std::size_t creditBytes() { return kRingLine; }

  /// `inbox` and `credit` are zeroed at first, aligned to kRingLine, and the same memory for both
  /// ends, each under its own addresses. `position` is zeroed memory of the end's own.
  Ring ring(std::byte* inbox, std::byte* credit, Position* position) const {
    return {reinterpret_cast<std::uint64_t*>(inbox),
            reinterpret_cast<Label*>(inbox + kRingLine),
            inbox + slotsAt(),
            reinterpret_cast<std::uint64_t*>(credit),
            position,
            depth,
            stride()};
  }

 private:
  static constexpr std::size_t padded(std::size_t bytes) {
    return (bytes + kRingLine - 1) / kRingLine * kRingLine;
  }
  constexpr std::size_t slotsAt() const { return kRingLine + padded(depth * sizeof(Label)); }
};

} // namespace rondo::device
