// A channel of the plan kernel: slots and flags in memory that both ends see. The structures are
// plain data for host and device. kernels/cuda/plan/kernel.cuh reads and writes them, and
// kernels/cuda/plan/PROOFS.md proves that the memory orders are sufficient.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/host_device.h"

namespace rondo::device {

/// How a message and its flag travel.
enum class Protocol : std::uint8_t {
  /// Each 8-byte packet has 4 bytes of data and a 4-byte flag: no fence, half the bandwidth.
  low_latency,
  /// The message, then one number that announces it.
  simple,
};

/// The position of an end in its ring: the number of the last message that it sent or took, and the
/// slot of the next one. It is in the memory of the end's own rank and is kept between launches.
struct Position {
  std::uint64_t number = 0;
  std::uint64_t slot = 0;
};

/// The metadata of a slot (simple).
struct Label {
  std::uint64_t call = 0;          ///< see labelFor()
  std::uint64_t bytes = 0;         ///< size of the message, for a host that forwards it
  const std::byte* lent = nullptr; ///< if not null, the message is here instead of in the slot
  std::byte* put_to = nullptr;     ///< if not null, the answer is to be put here
};

/// One end of a ring, with the addresses that its rank uses.
///
/// Messages are numbered from 1. Numbers only grow and nothing is ever reset, so a launch needs no
/// knowledge of earlier launches except what is in memory.
///
/// Each message has a label, from which its receiver sees whether both ends are in the same call.
///
/// A ring has two parts. The *inbox* (flag, labels, slots) is in the receiver's memory, and the
/// receiver polls it. The *credit* is in the sender's memory, and the sender polls it. Each part is
/// written only by the other end.
struct Ring {
  /// inbox: number of the last message that has arrived (simple).
  std::uint64_t* published = nullptr;
  Label* labels = nullptr;           ///< inbox: one for each slot (simple)
  std::byte* slots = nullptr;        ///< inbox
  std::uint64_t* consumed = nullptr; ///< credit: number of the last message that was taken
  Position* position = nullptr;      ///< of this end
  std::uint64_t depth = 1;
  std::uint64_t stride = 0; ///< bytes from one slot to the next
};

/// Distance in bytes between words that different ranks write, and alignment of the parts: two
/// sectors of a cache line may be fetched together.
inline constexpr std::size_t kRingLine = 128;

/// A low-latency slot is rewritten to its end, whatever the message's size, when the number's bits
/// under this mask are below the depth. So every packet is rewritten long before its flag value is
/// used again.
inline constexpr std::uint64_t kSweepMask = (std::uint64_t{1} << 24) - 1;

/// The flag of message `number`. It is never 0, the value of zeroed memory, and repeats after 2^31
/// messages.
constexpr RONDO_HOST_DEVICE std::uint32_t flagOf(std::uint64_t number) {
  return static_cast<std::uint32_t>(number) | 0x80000000u;
}

/// A line of a low-latency slot: two packets, each written by one store. The first line of a
/// message is its label, the others are its data.
struct Packets {
  std::uint64_t first = 0, second = 0; ///< each has 4 bytes of data, then the flag

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

/// The sizes of a ring's parts.
struct RingSize {
  Protocol protocol = Protocol::simple;
  std::uint64_t depth = 1;
  std::size_t slot_bytes = 0; ///< size of the largest message

  constexpr std::uint64_t stride() const {
    return padded(protocol == Protocol::low_latency ? sizeof(Packets) + 2 * slot_bytes
                                                    : slot_bytes);
  }
  constexpr std::size_t inboxBytes() const { return slotsAt() + depth * stride(); }
  static constexpr std::size_t creditBytes() { return kRingLine; }

  /// `inbox` and `credit` are initially zero and aligned to kRingLine. Both ends use the same
  /// memory, each at its own address. `position` is zeroed memory of this end only.
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
