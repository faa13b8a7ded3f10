// The CUDA engine's numbers, each with what it rests on. None has been measured.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rondo::engine {

/// Copies of a plan that a channel has rings for. A block of 512 threads draws some 30 GB/s of a card
/// with 132 multiprocessors and 4 TB/s; sixteen fill a link of 450 GB/s. Not measured.
inline constexpr std::uint32_t kMaxCopies = 16;

/// Slots of each copy's ring. A block fills one in 2 us, which is longer than flag and credit take; eight
/// let both sides work while one is late. Not measured.
inline constexpr std::size_t kDeviceSlot = 64 << 10;
inline constexpr int kDeviceDepth = 8;

/// Largest message of a low-latency ring, and blocks that are sent by it: twice the bytes travel, which
/// pays while a message costs its latency. Not measured.
inline constexpr std::size_t kLowLatencySlot = 8 << 10;
inline constexpr std::size_t kLowLatencyBlock = 32 << 10;

/// Tiles smaller than this are not made to give more copies something to do. Not measured.
inline constexpr std::size_t kLeastMessage = 8 << 10;

/// How long the proxy looks after the last message that it moved: a network's round trip and a kernel's
/// step, several times over, so that it does not nap in the middle of a call. Not measured.
inline constexpr std::chrono::microseconds kProxySpin{200};
/// Its naps. A sleep takes 50 us more than it says, which is what the shortest one costs. The longest
/// bounds what the first message after a pause waits, and leaves the processor to others but for a look
/// of a microsecond per channel.
inline constexpr std::chrono::microseconds kProxyLeastNap{5}, kProxyNap{100};

} // namespace rondo::engine
