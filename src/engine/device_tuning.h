// The CUDA engine's numbers, each with what it rests on. None has been measured.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rondo::engine {

/// Copies of a plan that a channel has rings for. A block of 512 threads draws some 30 GB/s of a
/// card with 132 multiprocessors and 4 TB/s, and writes as much; sixteen fill a link of 450 GB/s
/// if each byte is moved once, and an AllReduce moves it twice to three times. Not measured.
inline constexpr std::uint32_t kMaxCopies = 32;

/// The same where ranks share a device: there is no link to fill but the card's memory, which takes
/// all multiprocessors. Not measured.
inline constexpr std::uint32_t kMaxCopiesSharing = 64;

/// Largest message that is lent. The larger, the less flags cost (2 us a message, of 8 to move 256
/// KiB); the smaller, the more of what the ranks lend each other is still in the card's cache (50
/// MiB) when they read it. Not measured.
inline constexpr std::size_t kLentMessage = 256 << 10;

/// Slots of each copy's ring; with more copies than kMaxCopies smaller ones, so that a channel
/// takes no more memory. Flags and barriers cost a bundle of steps 2 us, and a block moves 60 KiB
/// in that time; four slots let both sides work while one is late. Not measured.
inline constexpr std::size_t kDeviceSlot = 64 << 10;
inline constexpr int kDeviceDepth = 4;
/// Larger ones where a bundle has few messages to move, as long as the inboxes of an AllReduce by
/// `direct` take a rank no more than this. Not measured.
inline constexpr std::size_t kMostDeviceSlot = 256 << 10;
inline constexpr std::size_t kDeviceInboxes = 128 << 20;
constexpr std::size_t deviceSlot(int ranks) {
  const auto channels = static_cast<std::size_t>(ranks > 1 ? 2 * (ranks - 1) : 1);
  std::size_t slot = kDeviceSlot;
  while (slot < kMostDeviceSlot &&
         2 * slot * channels * kMaxCopies * kDeviceDepth <= kDeviceInboxes)
    slot *= 2;
  return slot;
}

/// Device memory for the programs of a communicator, and as much pinned host memory. A program
/// takes 1 KiB (a small message) to 30 KiB (AllReduce by `direct` on 8 devices, in 32 copies), so
/// dozens of the largest stay there; one that has to come again costs its call a copy.
inline constexpr std::size_t kProgramBytes = 2 << 20;

/// Largest message of a low-latency ring, and blocks that are sent by it: twice the bytes travel,
/// which pays while a message costs its latency. Not measured.
inline constexpr std::size_t kLowLatencySlot = 8 << 10;
inline constexpr std::size_t kLowLatencyBlock = 32 << 10;
/// Copies that have such rings: as many tiles as such a block has.
inline constexpr std::uint32_t kLowLatencyCopies = 4;

/// Parts of a rank's window, and bytes of each for a tile. Half as many blocks as fill a link keep
/// the switch busy, since it does what they would wait for; all windows take as much memory as the
/// driver gives at least, and some. Not measured.
inline constexpr std::uint32_t kWindowCopies = 16;
inline constexpr std::size_t kWindowRoom = 256 << 10;

/// Tiles smaller than this are not made to give more copies something to do. Not measured.
inline constexpr std::size_t kLeastMessage = 8 << 10;

/// How long the proxy looks after the last message that it moved: a network's round trip and a
/// kernel's step, several times over, so that it does not nap in the middle of a call. Not
/// measured.
inline constexpr std::chrono::microseconds kProxySpin{200};
/// After that it naps for this part of the time since that message, so that no message comes later
/// by more, in proportion to the pause before it; but no longer than this. Launches wake it,
/// replays of graphs cannot.
inline constexpr int kProxyNapPart = 100;
inline constexpr std::chrono::microseconds kProxyLongestNap{1000};

} // namespace rondo::engine
