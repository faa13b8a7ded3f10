// Tuning constants of the CUDA engine, each with its reason and, where there is one, measurement.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rondo::engine {

/// Most copies of a plan, and so rings of a channel. A block of 512 threads reads about 30 GB/s and
/// writes as much on a GPU with 132 multiprocessors and 4 TB/s. Sixteen blocks fill a link of 450
/// GB/s if each byte is moved once; an AllReduce moves it two to three times. Not measured.
inline constexpr std::uint32_t kMaxCopies = 32;

/// The same if ranks share a device: then the limit is the device's memory, and more blocks than
/// fill it disturb each other. AllReduce between 2 ranks of one H200 with 48 / 62 copies, us:
/// 256 MiB 394 / 407, 16 MiB 124 / 153.
inline constexpr std::uint32_t kMaxCopiesSharing = 48;

/// Largest message that is lent. Larger messages have fewer flags; with smaller ones, more of the
/// lent data is still in the GPU's cache when peers read it. AllReduce of 256 MiB between 2 / 4 / 8
/// ranks of one H200, us: 64 KiB 803 / 1045 / 2341, 128 KiB 607 / 1049 / 1834, 256 KiB
/// 498 / 860 / 1473, 512 KiB 451 / 789 / 1460, 1 MiB 416 / 717 / 1417, 2 MiB 435 / 751 / 1405,
/// 4 MiB 429 / 736 / 1414. AllReduce of 16 MiB has no trend from 256 KiB on.
inline constexpr std::size_t kLentMessage = 1 << 20;

/// Slot size and slots of each copy's ring. With more copies than kMaxCopies slots are smaller, so
/// that a channel takes no more memory. Flags and barriers cost a bundle of steps 2 us, and a block
/// moves 60 KiB in that time. With four slots both sides can work while one is late. Not measured.
inline constexpr std::size_t kDeviceSlot = 64 << 10;
inline constexpr int kDeviceDepth = 4;
/// Slots grow up to this size for few ranks, as long as the inboxes of an AllReduce by `direct`
/// take a rank at most kDeviceInboxes bytes. Not measured.
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
/// dozens of the largest fit. A call whose program was evicted pays for a new copy.
inline constexpr std::size_t kProgramBytes = 2 << 20;

/// Slot size of a low-latency ring, and largest block that is sent by it. The protocol sends twice
/// the bytes, which is worth it while latency dominates. Not measured.
inline constexpr std::size_t kLowLatencySlot = 8 << 10;
inline constexpr std::size_t kLowLatencyBlock = 32 << 10;
/// Copies with low-latency rings: as many as the largest such block has tiles.
inline constexpr std::uint32_t kLowLatencyCopies = 4;

/// Parts of a rank's window, and bytes of each part in one tile. Half as many blocks as fill a link
/// keep the switch busy, because the switch does the work that they would wait for. All windows
/// together take about the driver's smallest allocation, and some more. Not measured.
inline constexpr std::uint32_t kWindowCopies = 16;
inline constexpr std::size_t kWindowRoom = 256 << 10;

/// Messages are not made smaller than this to occupy more copies. Not measured.
inline constexpr std::size_t kLeastMessage = 8 << 10;

/// How long the proxy polls after the last message: several times a network's round trip plus a
/// kernel's step, so that it does not sleep during a call. Not measured.
inline constexpr std::chrono::microseconds kProxySpin{200};
/// After that it sleeps for the time since the last message, divided by this number, but at most
/// kProxyLongestNap. So a message is delayed by at most 1% of the pause before it. Launches wake
/// the proxy; graph replays cannot.
inline constexpr int kProxyNapPart = 100;
inline constexpr std::chrono::microseconds kProxyLongestNap{1000};

} // namespace rondo::engine
