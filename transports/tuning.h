// Tuning constants of all transports, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rondo::transport {

/// The slots of one channel.
struct ChannelSize {
  std::size_t slot_bytes = 0;
  int depth = 0;
};

/// Mapped transports: 1 MiB for each direction. Data that another core has just written is copied
/// fastest in pieces of 64 KiB to 1 MiB (11 to 17 GB/s; 4 KiB: 8, 16 MiB: 14.6). So the whole ring
/// should fit a core's second-level cache (1 to 2 MiB). With eight slots both sides can work while
/// one is late.
inline constexpr ChannelSize kMappedSize{128 << 10, 8};

/// Bodies of this size and above are lent if the peer can read them. AllReduce of 2 threads on 2
/// cores, us, copied and lent: 32 KiB messages 7.1 and 8.5, 64 KiB 13.4 and 9.9, 512 KiB 136 and
/// 80. A smaller body is copied before the peer needs it, while a loan waits for the peer twice.
inline constexpr std::size_t kLendBytes = std::size_t{64} << 10;
/// The same for an exchange of inputs, in which no rank overwrites lent memory and both ranks are
/// active. AllReduce of 2 processes on 2 cores, us, copied and lent. Inputs rewritten before each
/// call: 1 KiB 0.56 and 0.81, 2 KiB 1.09 and 0.93, 16 KiB 2.79 and 2.63. Inputs not rewritten, so
/// that they stay in both caches: 16 KiB 2.79 and 0.87.
inline constexpr std::size_t kLendExchangedBytes = std::size_t{2} << 10;

/// Private memory of another process is lent from these sizes on, if the receiver only stores it.
/// kShareBytes: both ends copy. Times in us of 2 processes, through slots / by both ends: broadcast
/// of 64 KiB 12.4 / 6.1, gather of 64 KiB 12.6 / 7.6; at 16 MiB, best of 9 runs: broadcast 1768 /
/// 1782, gather 845 / 837. kReadBytes: only the receiver copies. 4 processes on 2 cores, through
/// slots / by the receiver: scatter of 64 KiB no difference, 256 KiB 98 / 66, 1 MiB 654 / 314.
inline constexpr std::size_t kShareBytes = std::size_t{64} << 10;
inline constexpr std::size_t kReadBytes = std::size_t{96} << 10;

/// Size of the parts in which both ends copy a body. Times in us of 2 processes, with parts of 64
/// KiB / 32 KiB: broadcast of 256 KiB 21.5 / 13.5, of 1 MiB 65 / 70, gather of 4 MiB 637 / 573. For
/// messages of 128 KiB, smaller parts were not measured.
inline constexpr std::size_t kSharePart = std::size_t{32} << 10;

/// Bodies of one-way calls of this size and above that are not lent are published early, and copied
/// in pieces (SlotRing::publishEarly()). AMD Zen 4, 2 processes, us, shared by both ends through
/// the kernel / early, in pieces of 32 KiB: broadcast of 64 KiB 4.6 / 3.3, of 1 MiB 66 / 51, of 4
/// MiB 264 / 200; gather of 1 MiB 97 / 59. Pieces of 8, 16, 32, 64 KiB: broadcast of 64 KiB 2.9,
/// 2.9, 3.3, 5.4; of 1 MiB no difference. Bodies of 32 KiB, early or not: no difference.
inline constexpr std::size_t kEarlyBytes = std::size_t{64} << 10,
                             kEarlyPiece = std::size_t{32} << 10;

/// Number of later messages whose destinations the receiver gives to the sender early, so that the
/// sender need not wait. Times in us of 2 processes, with 0 / 2 / 6 messages: gather of 1 MiB
/// 135 / 83 / 78, of 4 MiB 755 / 637 / 609.
inline constexpr std::size_t kShareAhead = 2;

/// Slot memory that a rank uses in turn, over all channels of a call together, but at least two
/// slots of each channel. With more, slots leave the second-level caches (2 MiB, shared by the
/// ranks of a core): 8 processes on 2 cores, direct, 256 KiB: 343 us with 256 KiB for each channel,
/// 230 us with 64 KiB. With less, the sender writes lines that its reader's core has just read,
/// which is slow: broadcast between 2 processes, 16 KiB: 2.6 us with 128 KiB, 1.4 us with 256 KiB,
/// and no less with 1 MiB.
inline constexpr std::size_t kReuseBytes = std::size_t{256} << 10;

/// Bodies of this size and above use this many times kReuseBytes: the more slots, the later the
/// sender overwrites lines that its reader's core holds. 2 processes, us, with 256 KiB / 1 MiB in
/// turn: AllReduce of 1 MiB in place 158 / 138, Allgather of 1 MiB from each rank 232 / 217. A
/// program outside Rondo that only copies takes 240 / 210 us for that Allgather.
inline constexpr std::size_t kLargeBodyBytes = std::size_t{64} << 10, kLargeReuseTimes = 4;

/// Whether a core should write to the lines that it has read and that another core will write next.
/// It should if a cache stays the owner of a line that another core reads (MOESI, AMD's protocol).
/// The owner's next write must end the sharing first: 7 ns for each line, and such writes do not
/// overlap. A line that only the reader's cache holds takes 2 ns. AMD Zen 4, 2 processes, us,
/// without / with such writes: broadcast of 16 KiB 1.97 / 0.62, Allgather of 16 KiB from each rank
/// 3.52 / 1.85. For bodies of 64 KiB and above, AllReduce of 1 MiB: 64 / 79.
inline bool takingLinesPays() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

/// In collectives that do not reduce, steps with one input take the lines of bodies below this
/// size; other steps take those of bodies below kLargeBodyBytes. AMD Zen 4, 2 processes, us,
/// without / with: allgather of 64 KiB from each rank 11.2 / 7.7, alltoall 8.5 / 6.1, and while the
/// cores did not share a cache 30.9 / 14.3 and 27.9 / 12.0. Where the receiver reduces: allreduce
/// of 256 KiB, whose messages have 64 KiB, 17.2 / 19.3. For messages of 128 KiB: allgather of 1 MiB
/// 97 / 106.
inline constexpr std::size_t kTakeMovedBelow = kLargeBodyBytes + 1;

/// Where takingLinesPays(): if a result goes to slots in bodies of kLargeBodyBytes and above (whose
/// lines receivers do not take), it may be computed in blocks of this size, each of which is then
/// copied to the slots. engine::FasterWay measures whether this is faster. For a copy of this size
/// memcpy() uses `rep movsb`, which replaces whole lines, while each store of a reduction waits
/// until this core owns the line. AllReduce of 2 processes by direct, us, computed in the slots /
/// copied to them. AMD Zen 5: 256 KiB 8.9 / 9.4, 1 MiB 44 / 48, and while the cores did not share a
/// cache 32 / 18 and 125 / 56. Zen 3: 1 MiB 87 / 97, and while the cores did not share a cache
/// about the same. Blocks of 32 KiB are as fast.
inline constexpr std::size_t kCopiedBlock = std::size_t{16} << 10;

/// Up to this size of the call's output, its parts that a rank lends may be computed and copied in
/// the same way, unless they are reduced in place. AMD Zen 5, mapped buffers, us, computed in the
/// output / copied to it. While the cores shared a cache: 256 KiB 8.1 / 8.7, 1 MiB 33 / 35, 4 MiB
/// 138 / 141. While they did not: 256 KiB 27 / 17, 1 MiB 95 / 61, 4 MiB 366 / 246, 16 MiB 1189 /
/// 1220.
inline constexpr std::size_t kCopiedResult = std::size_t{8} << 20;

/// Bodies up to this size use three quarters of kReuseBytes, so that slots and lines together stay
/// within 256 KiB for each peer.
inline constexpr std::size_t kSmallBodyBytes = std::size_t{4} << 10;

/// Bodies of the same size that share a slot, at most. With more, small messages would use memory
/// without being faster. Gather between 2 processes, 1 KiB each, us, with 1 / 64 bodies in a slot:
/// 0.37 / 0.20.
inline constexpr std::size_t kBodiesTogether = 64;

/// Where takingLinesPays(), bodies from kGapFrom to kGapTo are kGapBytes apart in a slot,
/// unless kKeepsUp messages or more wait for the receiver when the slot is begun. The processor
/// fetches lines after those that the receiver reads. If the receiver keeps up, the sender is just
/// writing the next body there, and has to take each line back. If many messages wait, these lines
/// are needed next. AMD Zen 4, 2 processes, us, without / with gaps: broadcast of 1 KiB 0.121 /
/// 0.103, of 4 KiB (which therefore have none) 0.197 / 0.206, scatter of 1 KiB 0.140 / 0.125,
/// allgather 0.270 / 0.240. Gather of 1 KiB, whose root is slower than its sender, with gaps in any
/// case: 0.088 / 0.098.
inline constexpr std::size_t kGapFrom = 512, kGapTo = std::size_t{2} << 10, kGapBytes = 256;
inline constexpr std::uint64_t kKeepsUp = 4;

/// Slots are prefetched for writing for bodies up to this size. AMD Zen 3, 2
/// processes, us, while the cores did not share a cache, without / with: broadcast of 1 KiB 0.395 /
/// 0.282, of 2 KiB 0.562 / 0.413, of 4 KiB 0.80 / 0.76. While they shared one: 0.193 / 0.192, 0.272
/// / 0.237, 0.445 / 0.467.
inline constexpr std::size_t kPrefetchTo = std::size_t{2} << 10;

/// A full ring is written again when 1 / kFreeAgain of its lines is free, or after kFullWait.
/// Otherwise a root that is faster than its receiver looks at the receiver's count after each
/// message.
inline constexpr std::uint64_t kFreeAgain = 4;
inline constexpr std::chrono::microseconds kFullWait{20};

/// Slots of a channel between processes that get memory when they are first used. The others get
/// memory only when all of these are in use. A rank that keeps up needs no more, and a program may
/// have hundreds of communicators.
inline constexpr int kSlotsAtFirst = 4;

/// Lines of a ring for each slot. A line has 64 bytes; slots are large. Ranks that share a core
/// take turns, and the more messages can wait, the fewer turns they need. 4 processes on 2 cores,
/// broadcast of 8 bytes: 0.32 us with 8 lines for each slot, 0.11 us with 32. Between 2 processes
/// there is no difference.
inline constexpr std::size_t kLinesPerSlot = 32;

/// Network channels have no slots: slot_bytes only limits a message. 256 KiB is far above the size
/// at which one send call costs more than its copy, and four pending messages keep the socket busy.
inline constexpr ChannelSize kNetworkChannelSize{256 << 10, 4};

/// Send buffer of a socket to the same machine (SO_SNDBUF, which the kernel doubles). The kernel's
/// default grows to 4 MiB, so that both copies are from memory to memory; with a small buffer the
/// data stays in the caches. 4 ranks on 2 cores, with other load, rank 0 and each other rank send
/// each other 25 MiB: 75 ms with the default, 67 with 512 KiB, 52 with 256 KiB, 49 with 128 KiB, 51
/// with 64 KiB. A ring, which has little data in flight, shows no trend. Between machines the
/// default is used.
inline constexpr int kNearSendBytes = 128 << 10;

/// UCX: the most messages of a channel that may have been sent and not yet been taken by receive().
/// The receiver acknowledges after each half of them. Must be a power of two. With the limit
/// kUcxEagerBytes, a channel holds at most 2 MiB.
inline constexpr std::uint32_t kUcxWindow = 32;
/// As for tcp: messages are sent from and received into user memory.
inline constexpr ChannelSize kUcxSize{256 << 10, 4};
/// Larger bodies stay with the sender until the receiver knows their destination. Half a round trip
/// between 2 processes on 2 cores, us, through UCX's memory and from the sender's (UCX 1.13, on a
/// shared machine). With its shared memory: 16 KiB 4.9 and 7.2, 64 KiB 12.5 and 16.5, 128 KiB 33
/// and 21. With its TCP over loopback: 18 and 36, 33 and 47, 54 and 62.
inline constexpr std::size_t kUcxEagerBytes = std::size_t{64} << 10;
/// Bodies up to this size are copied from UCX's memory at once, which costs less than returning the
/// memory later.
inline constexpr std::size_t kUcxKeepBytes = 256;
/// Polls without progress after which a thread polls the other workers of its process.
inline constexpr std::uint32_t kUcxVisit = 256;
/// How long a rank that closes waits for UCX to send what it has taken.
inline constexpr std::chrono::milliseconds kUcxEnd{1000};

/// The smallest useful slot: one cache line. Slot sizes are multiples of it.
inline constexpr std::size_t kSlotGrain = 64;

/// A larger channel is assumed to be a typing error (K for M). Asking the kernel for more shared
/// memory than exists does not fail; it starts the out-of-memory killer.
inline constexpr std::size_t kMaxChannelBytes = std::size_t{1} << 30;
inline constexpr int kMaxDepth = 64;

/// Size of the parts into which several sockets divide a message. With smaller parts, a second
/// socket's system calls (a send and a receive: 2 to 4 us) cost more than they save of the copy (64
/// KiB at 5 to 9 GB/s: 7 to 13 us). With larger ones, a message of 256 KiB has too few parts for
/// sockets of different speed.
inline constexpr std::size_t kPartBytes = std::size_t{64} << 10;
/// Messages that several sockets may have in flight together, for each of `depth`. They are pending
/// until the peer's system has acknowledged them, not only until the own system has taken them.
inline constexpr int kStripedDepthTimes = 4;
/// A part that is in flight for this long, and this many times as long as parts of the fastest
/// socket, is also sent over another socket. Round trips are shorter than that, even to another
/// continent, except for the first.
inline constexpr std::chrono::milliseconds kLeastPatience{50};
inline constexpr int kPatienceTimes = 4;
/// An idle socket gets a part even if it is up to this many times as slow as the others. Parts are
/// often assigned one by one, and a single part takes much longer than its share of many. Meanwhile
/// the others have up to 64 parts to carry, by the limits above.
inline constexpr double kIdleBonus = 32;
/// If there is nothing else to do, an idle socket repeats a part that another one would deliver
/// this many times later.
inline constexpr double kIdleRepeat = 4;
/// An acknowledgement is noticed only at the next check. So a measured time counts only if it is at
/// least this many times the time since the last check.
inline constexpr int kLooksApart = 4;
/// A socket that was idle for this long gets a copy of a part that another one carries, which shows
/// when a slow socket is fast again. It costs 2 Mbit/s for each.
inline constexpr std::chrono::milliseconds kProbePause{250};
/// If a receiver has received nothing of the next message for this long, while later messages are
/// at the heads of its sockets, it stores these aside: the missing part may be after them.
inline constexpr std::chrono::milliseconds kStashAfter{20};

/// Bodies up to this size are copied next to their header: one piece of memory costs the kernel
/// less than two (8 bytes between 2 ranks: 3.8 and 3.6 us), and the user memory is free at once.
inline constexpr std::size_t kGatherBytes = 240;

/// Size of a receiver's read-ahead buffer. Copying this much once more takes about as long as the
/// system call that it saves (0.1 us).
inline constexpr std::size_t kReadAheadBytes = 4096;

/// Pieces of memory in one system call (the kernel's limit is 1024; they are on the stack).
inline constexpr std::size_t kPiecesPerCall = 64;

} // namespace rondo::transport
