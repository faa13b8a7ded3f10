// Stream: where the calls of a communicator on a GPU go, and how such calls differ from calls on
// host memory.
#pragma once

namespace rondo {

/// A cudaStream_t, declared without CUDA's headers. A value; it owns nothing.
///
/// With Options::device, the buffers of all calls are memory that the device can use, and each call
/// is one kernel on the communicator's stream. Async forms return when the kernel is enqueued. It
/// runs after the earlier work of the stream, and later work of the stream sees the result.
/// Work::wait() and the plain forms wait for it on the host. Calls neither depend on the thread's
/// current CUDA device nor change it. Other differences from host memory:
///
/// Ranks that share a device. Each rank of a process needs a stream of its own (setStream), made
/// with cudaStreamNonBlocking. Any other stream waits for the default stream, so the ranks' kernels
/// could not run at the same time; it is Error(invalid_argument). The kernels of all ranks
/// run at the same time. If they do not fit on the device together, the call is Error(unsupported).
/// For more than seven such ranks, start the program with CUDA_DEVICE_MAX_CONNECTIONS=32, since
/// streams that share a hardware queue wait for each other. A thread that copies from the device to
/// memory that is not pinned, after a call that has not ended, may keep other ranks' threads from
/// launching their kernels: call wait() first.
///
/// Order. Two calls, or replays, of a communicator never run at the same time. The library ensures
/// this for calls, also on different streams, and for the calls of one capture. A program that
/// replays graphs must put the graphs and the calls around them on one stream, or order the streams
/// by events. If two of them run at the same time nevertheless, both end with Error(aborted),
/// which says so.
///
/// Graphs. Calls on a stream that is being captured go into the graph. The Work of such a call is
/// complete as soon as all calls made before it are, because nothing runs until the replay. Every
/// rank must replay the same graphs in the same order, with the same other calls between them,
/// while its communicator lives. The first call with a given collective, count, type and operator
/// opens channels. If ranks are processes on one machine, it waits for the peers, so make it before
/// the capture. The error of a failed replay is thrown by the next call.
///
/// Send and Recv. A single send runs until the message is in the channel, and a single receive
/// until the message has arrived; later work of the stream waits for it. So two ranks that both
/// send first and receive afterwards would wait for each other until the deadline. All sends and
/// receives that a Group makes on one communicator run at the same time, in one kernel. (Those of
/// one peer run in order. More than 112 / size() of them to or from one peer run in several
/// kernels.) So messages that cross belong in a Group on both ranks, and so do the send and the
/// receive of a message to the rank itself. That kernel runs after the group's collectives on all
/// ranks, whatever the order of the calls in the group. The first send or receive between two
/// processes on one machine waits for the peer's.
///
/// Errors. Options::timeout is counted from the moment when all earlier calls of the communicator
/// have ended, so it includes other work of the stream before the call. After an error, do not free
/// or reuse memory until the streams of all ranks of this process have been synchronized: kernels
/// that wait for a peer end soon, but possibly after wait() has thrown. If sender and receiver pass
/// different blocks of a v-form, or different counts of a message, the call may end with
/// Error(timeout). allocate() and registerBuffer() are Error(unsupported); they would gain nothing,
/// since all device memory is alike.
///
/// Networks. Devices that cannot reach each other's memory, for example in different machines,
/// communicate over UCX or TCP. A thread of the communicator moves messages between the network and
/// host memory that the kernels use. It starts with the first such channel and polls for messages;
/// it polls without sleeping for 0.2 ms after each. After a pause it looks less often: each of the
/// first messages of a replayed graph may be delayed by 1/100 of the pause, at most 1 ms.
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
