// The numbers of all transports, in one place, each with what it rests on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rondo::transport {

/// Slots of one channel.
struct ChannelSize {
  std::size_t slot_bytes = 0;
  int depth = 0;
};

/// Mapped transports: 1 MiB a direction. What the other core has just written is copied fastest
/// from 64 KiB to 1 MiB (11 to 17 GB/s; 4 KiB: 8, 16 MiB: 14.6), so the whole ring should stay in a
/// core's second-level cache (1 to 2 MiB), and eight slots let both sides work while one is late.
inline constexpr ChannelSize kMappedSize{128 << 10, 8};

/// Bodies from here on are lent where the peer can read them. All-reduce of 2 threads on 2 cores,
/// us, copied and lent: 32 KiB messages 7.1 and 8.5, 64 KiB 13.4 and 9.9, 512 KiB 136 and 80.
/// Below, the copy is made while the peer is not there yet; a loan waits for it twice.
inline constexpr std::size_t kLendBytes = std::size_t{64} << 10;
/// In an exchange of inputs nobody overwrites what is lent, and both are there. All-reduce of 2
/// processes on 2 cores, us, copied and lent, inputs written anew for each call: 1 KiB 0.56 and
/// 0.81, 2 KiB 1.09 and 0.93, 16 KiB 2.79 and 2.63; not written, so that they stay in both caches:
/// 16 KiB 2.79 and 0.87.
inline constexpr std::size_t kLendExchangedBytes = std::size_t{2} << 10;

/// A rank writes bodies to this much slot memory in turn, over all the channels of a call together;
/// at least to two slots of each. More leaves the second-level caches (of 2 MiB, shared by the
/// ranks of a core): 8 processes on 2 cores, direct, 256 KiB: 343 us with 256 KiB a channel, 230 us
/// with 64 KiB. Less makes it wait for its reader's core: broadcast between 2 processes, 256 KiB in
/// messages of 32 KiB: 26 us with 128 KiB, 15.5 us with 256 KiB.
inline constexpr std::size_t kReuseBytes = std::size_t{256} << 10;

/// Slots of a channel between processes that get memory when their turn comes. The others get it
/// when those before them are all full: a rank that keeps up needs no more, and a program may have
/// hundreds of communicators.
inline constexpr int kSlotsAtFirst = 4;

/// Lines of a ring per slot. A line is 64 bytes; slots are large. Ranks that share a core take
/// turns, and the more messages wait, the fewer turns: 4 processes on 2 cores, broadcast of 8
/// bytes: 0.32 us with 8 lines a slot, 0.11 us with 32. Between 2 processes no difference.
inline constexpr std::size_t kLinesPerSlot = 32;

/// Carriers need no slots: slot_bytes only bounds a message. 256 KiB is well past the size at which
/// one send call costs more than its copy, and four pending ones keep the socket fed.
inline constexpr ChannelSize kCarrierSize{256 << 10, 4};

/// What a socket to the same machine holds of its sender (SO_SNDBUF, of which the kernel makes
/// twice as much). By itself it takes 4 MiB, and both copies are from memory to memory; so little
/// stays in the caches. 4 ranks on 2 cores, beside other work, rank 0 and each other one send each
/// other 25 MiB: 75 ms with what the kernel takes, 67 with 512 KiB, 52 with 256 KiB, 49 with 128
/// KiB, 51 with 64 KiB; a ring, of which little is under way, shows no trend. Between machines the
/// kernel knows better.
inline constexpr int kNearSendBytes = 128 << 10;

/// UCX: messages that a receiver holds and has not received. Receipts come for half of them.
/// A power of two. With the bound of the next but one a channel holds 2 MiB at most.
inline constexpr std::uint32_t kUcxWindow = 32;
/// As tcp's: a message is sent from and received into user memory.
inline constexpr ChannelSize kUcxSize{256 << 10, 4};
/// Larger bodies stay with the sender until the receiver knows where they go. Half a round trip
/// between 2 processes on 2 cores, us, through UCX's memory and from the sender's (UCX 1.13): its
/// shared memory, 16 KiB 4.9 and 7.2, 64 KiB 12.5 and 16.5, 128 KiB 33 and 21; its TCP over
/// loopback 18 and 36, 33 and 47, 54 and 62. (On a shared machine.)
inline constexpr std::size_t kUcxEagerBytes = std::size_t{64} << 10;
/// Bodies up to here are copied out of UCX's memory at once, which costs less than to give it back.
inline constexpr std::size_t kUcxKeepBytes = 256;
/// Looks in vain after which a thread looks after the process's other workers.
inline constexpr std::uint32_t kUcxVisit = 256;
/// How long the end of a rank waits until what UCX has taken over has left.
inline constexpr std::chrono::milliseconds kUcxEnd{1000};

/// The least useful slot: one cache line. Slots are multiples of it.
inline constexpr std::size_t kSlotGrain = 64;

/// A channel beyond this is a typing error (K for M); asking the kernel for more shared memory than
/// there is does not fail, it wakes the out-of-memory killer.
inline constexpr std::size_t kMaxChannelBytes = std::size_t{1} << 30;
inline constexpr int kMaxDepth = 64;

/// What one socket of several carries at a time. Below it, a second socket's system calls (a send
/// and a receive: 2 to 4 us) cost more than they save of the copy (64 KiB at 5 to 9 GB/s: 7 to 13
/// us); above it, a message of 256 KiB has too few parts for sockets that are not equally fast.
inline constexpr std::size_t kPartBytes = std::size_t{64} << 10;
/// Messages that several sockets may have under way together, for each of `depth`: they are pending
/// until the peer's system has acknowledged them, not only until the own one has taken them over.
inline constexpr int kStripedDepthTimes = 4;
/// A part that is under way for so long, and for so many times as long as parts by the best socket,
/// also goes by another one. Round trips are shorter, also to another continent, but for the first.
inline constexpr std::chrono::milliseconds kLeastPatience{50};
inline constexpr int kPatienceTimes = 4;
/// A socket that stands idle is given a part if it is up to so many times as slow as the others.
/// Parts are often handed over one by one, and one that goes alone takes much longer than its share
/// of many; meanwhile the others have up to 64 parts to carry, by the bounds above.
inline constexpr double kIdleBonus = 32;
/// Where nothing else is to do, an idle socket repeats what another one would bring so many times
/// later.
inline constexpr double kIdleRepeat = 4;
/// Acknowledgements are seen when somebody looks: a time counts as measured when it is so many
/// times as long as that was ago.
inline constexpr int kLooksApart = 4;
/// A socket that had nothing to carry for so long gets a copy of a part that another one carries,
/// so that it shows when a slow one is fast again: 2 Mbit/s for each.
inline constexpr std::chrono::milliseconds kProbePause{250};
/// A receiver that sees nothing of the next message for so long, while later messages stand before
/// it, puts these aside: the missing part may stand behind them.
inline constexpr std::chrono::milliseconds kStashAfter{20};

/// Bodies up to here are copied behind their header: one piece of memory costs the kernel less than
/// two (8 bytes between 2 ranks: 3.8 and 3.6 us), and user memory is free at once.
inline constexpr std::size_t kGatherBytes = 240;

/// What a receiver reads ahead of a message, header included: copying this much once more takes
/// about as long as the system call that it saves (0.1 us).
inline constexpr std::size_t kReadAheadBytes = 4096;

/// Pieces of memory handed to the kernel in one call (its limit is 1024; they live on the stack).
inline constexpr std::size_t kPiecesPerCall = 64;

} // namespace rondo::transport
