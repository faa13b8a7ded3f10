// Buffers in the memory of GPUs: the stream that a communicator's calls go to, and what is
// different there.
#pragma once

namespace rondo {

/// A cudaStream_t, so that no CUDA header is needed here. A value; it owns nothing.
///
/// With Options::device the buffers of all calls are memory that the device can use, and each call
/// is one kernel on the communicator's stream. Async forms return when it is enqueued: what the
/// stream was given before runs before it, what it is given afterwards sees the result, and
/// Work::wait() waits for it on the host, as the plain forms do. What is different from host
/// memory:
///
/// Ranks that share a device. Those of one process need a stream each (setStream) that does not
/// wait for the default stream, so one made with cudaStreamNonBlocking: or one would wait behind
/// the other, Error(invalid_argument). All ranks' kernels run at the same time, and must fit on the
/// device together, else the call is Error(unsupported). For more than seven such ranks start the
/// program with CUDA_DEVICE_MAX_CONNECTIONS=32: streams that share a queue wait for each other. A
/// thread that copies from the device to memory that is not pinned, behind a call that has not
/// ended, may keep the other ranks' threads from launching theirs: wait() first.
///
/// Order. Two calls, or replays, of a communicator never run at the same time. The library sees to
/// that for calls, also on different streams, and for those of one capture; a program that replays
/// graphs puts them and the calls around them on one stream, or orders the streams by events. Where
/// it does not, both end as Error(aborted) that says so, when they meet.
///
/// Graphs. A stream that is being captured takes calls into the graph, and their Work is done when
/// the calls before them are. Every rank must replay the same graphs in the same order, mixed with
/// other calls alike, before its communicator ends. The first call of a shape opens channels: where
/// ranks are processes on one machine it waits for the peers, so make it before the capture. A
/// replay that fails shows in the next call.
///
/// Send and Recv. A send that is alone runs until the message is in the channel, a receive until it
/// is there, and what follows on the stream waits for it: two ranks that both send first and
/// receive then would wait for each other until the deadline. All sends and receives of a Group on
/// one communicator run side by side, in one kernel (those of one peer in order; of more than 112 /
/// size() to or from one peer, in several), so messages that cross belong in a Group on both ranks,
/// as do both ends of one to oneself. That kernel follows the group's collectives, on all ranks,
/// wherever the calls stand. The first send or receive between two processes on one machine waits
/// for the peer's.
///
/// Errors. Options::timeout runs from when a call is the first on the communicator that has not
/// ended, so it holds what else the stream does until then. After an error, memory is in use until
/// the streams of all ranks of this process have been synchronized: kernels that wait for a peer
/// end soon, but not before wait() throws. v-forms whose blocks, and messages whose counts, differ
/// at sender and receiver may end as Error(timeout). allocate() and registerBuffer() are
/// Error(unsupported): any device memory is as good as any other.
///
/// Networks. Devices that do not reach each other, as those of several machines, talk over TCP: a
/// thread of the communicator's own moves messages between the network and host memory that the
/// kernels use. It exists from the first such channel on, and looks for messages all the time,
/// busily for 0.2 ms after each. The first messages of a replayed graph may each wait for a
/// hundredth of the pause before it, up to 1 ms.
class Stream {
 public:
  /// The device's default stream.
  constexpr Stream() = default;
  explicit constexpr Stream(void* cuda_stream) : handle_(cuda_stream) {}

  constexpr void* handle() const { return handle_; }
  constexpr bool operator==(const Stream&) const = default;

 private:
  void* handle_ = nullptr;
};

} // namespace rondo
