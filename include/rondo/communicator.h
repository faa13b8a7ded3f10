// The front door: a communicator and its collectives.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rondo/buffer.h"
#include "rondo/error.h"
#include "rondo/export.h"
#include "rondo/options.h"
#include "rondo/rendezvous.h"
#include "rondo/stream.h"
#include "rondo/types.h"
#include "rondo/work.h"

namespace rondo {

namespace comm {
class CommunicatorImpl;
}

/// Where the blocks of a v-form lie in a buffer that has one for each rank: block r has counts[r]
/// elements and begins offsets[r] elements after the start of the buffer. Both have size() entries;
/// they are read during the call only, also by the Async forms. Blocks that are written must not
/// overlap.
struct Blocks {
  std::span<const std::size_t> counts, offsets;
};

/// What a rank of a communicator has reserved for messages, in bytes; between threads, slots that
/// were never used take no memory. Channels open with the first call that uses them, and stay. Not
/// counted: plans (some KiB for each shape of call), and what allocate() gave.
struct MemoryUse {
  std::size_t channels = 0; ///< that this rank sends on; a number, not bytes
  /// Of those channels, where peers share memory; between devices over a network, of all channels.
  std::size_t slots = 0;
  std::size_t staging = 0; ///< beside streams (TCP), for messages that cannot go to user memory
  std::size_t scratch = 0; ///< partial results

  std::size_t bytes() const { return slots + staging + scratch; }
};

/// A fixed group of ranks that call collectives together.
///
/// Calls. Each collective exists twice: the plain form returns when the result is there, the Async
/// form returns a Work at once. All ranks must make the same collective calls in the same order
/// (Send and Recv only between their two ranks); a difference is Error(mismatch) on every rank.
/// Collectives of one communicator run in the order of the calls. Sends to one peer, and receives
/// from one peer, run in the order of the calls, independently of everything else.
///
/// Buffers. Counts are in elements of `type`. A buffer may be null when its element count is zero.
/// Input and output must not overlap, except in place as said at each call. Outputs are defined
/// only after success. Any alignment works.
///
/// Ranks. A rank is a Communicator object. One process may hold any number, of the same or of
/// different groups. One object may be used from several threads; the order of the calls is then
/// the caller's to arrange. A failed communicator (any code but invalid_argument and unsupported)
/// stays failed.
///
/// Results. With Options::deterministic floating-point results do not depend on algorithm,
/// transport, or size of the message; otherwise only on the algorithm chosen for the size.
///
/// Devices. With Options::device the buffers of all calls are memory that the device can use, and
/// each call is one kernel on the communicator's stream. Async forms return when it is enqueued:
/// what the stream was given before runs before it, what it is given afterwards sees the result,
/// and Work::wait() waits for it on the host, as the plain forms do. Six things are different:
/// - Ranks of one process that share a device need a stream each (setStream), or one would wait
/// behind
///   the other: Error(invalid_argument). All ranks' kernels run at the same time, and must fit on
///   the device together, else the call is Error(unsupported). For more than seven such ranks start
///   the program with CUDA_DEVICE_MAX_CONNECTIONS=32: streams that share a queue wait for each
///   other. A thread that copies from the device to memory that is not pinned, behind a call that
///   has not ended, may keep the other ranks' threads from launching theirs: wait() first.
/// - A stream that is being captured takes calls into the graph, and their Work is done when the
/// calls
///   before them are. Every rank must replay the same graphs in the same order, mixed with other
///   calls alike, before its communicator ends. The first call of a shape opens channels: where
///   ranks are processes on one machine it waits for the peers, so make it before the capture.
/// - A send that is alone runs until the message is in the channel, a receive until it is there,
/// and
///   what follows on the stream waits for it: two ranks that both send first and receive then would
///   wait for each other until the deadline. All sends and receives of a Group on one communicator
///   run side by side, in one kernel (those of one peer in order; of more than 112 / size() to or
///   from one peer, in several), so messages that cross belong in a Group on both ranks, as do both
///   ends of one to oneself. That kernel follows the group's collectives, on all ranks, wherever
///   the calls stand. The first send or receive between two processes on one machine waits for the
///   peer's.
/// - Options::timeout runs from when a call is the first on the communicator that has not ended, so
/// it
///   holds what else the stream does until then.
/// - After an error, memory is in use until the streams of all ranks of this process have been
///   synchronized: kernels that wait for a peer end soon, but not before wait() throws. A replay
///   that fails shows in the next call.
/// - v-forms whose blocks, and messages whose counts, differ at sender and receiver may end as
///   Error(timeout).
/// Devices that do not reach each other, as those of several machines, talk over TCP: a thread of
/// the communicator's own moves messages between the network and host memory that the kernels use.
/// It exists from the first such channel on, and looks for messages all the time, busily for 0.2 ms
/// after each. The first messages of a replayed graph may each wait for a hundredth of the pause
/// before it, up to 1 ms. Not on devices: allocate() and registerBuffer() (Error(unsupported); any
/// device memory is as good as any other).
class RONDO_API Communicator {
 public:
  /// Meets the other ranks. Throws Error(init_failed) that lists missing ranks at the deadline.
  static Communicator create(const Rendezvous& meet,
                             const Options& options = Options::fromEnvironment());
  /// `size` in-process ranks, made by one thread; element r is rank r. Blocking calls on them need
  /// a thread each, or a Group.
  static std::vector<Communicator> createAll(int size,
                                             const Options& options = Options::fromEnvironment());

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Waits (within the timeout) for outstanding work of this rank; does not wait for other ranks,
  /// but until the network has taken what is for them. In a child made by fork() it drops the copy
  /// and does nothing else. That, ending and executing a program is all that a child may do with
  /// what it inherits from Rondo; its copies of connections are dead, so the rank's own end shows.
  ~Communicator();

  int rank() const;
  int size() const;

  /// Collective. Ranks with equal `color` form a communicator, ordered by `key`, ties by rank.
  /// color kNoColor: nothing is returned.
  static constexpr int kNoColor = -1;
  std::optional<Communicator> split(int color, int key);

  /// From any thread, any time, any number of times: every pending and later call of every rank of
  /// this communicator ends with Error(aborted) that holds `reason`.
  void abort(const std::string& reason);

  /// Calls from now on go to this stream of Options::device, in the manner of cublasSetStream();
  /// until then to the default stream. The calls on the stream before still run first. The stream
  /// must live until they have. A communicator that split() returns begins with the default stream.
  /// Throws Error(unsupported) where buffers are in host memory.
  void setStream(Stream stream);

  /// Memory for `bytes` bytes, zeroed, aligned to pages, that peers on this machine read in place.
  /// Throws Error(system).
  Buffer allocate(std::size_t bytes);
  /// Makes memory that the program already has such a buffer, where it stands, with its contents:
  /// whole pages of private anonymous memory (malloc's large blocks are mostly that, rounded
  /// inwards). No other thread may touch it during the call. Throws Error(invalid_argument) for
  /// parts of pages, Error(unsupported) for other memory, Error(system).
  Buffer registerBuffer(void* data, std::size_t bytes);

  // Collectives ---------------------------------------------------------------------------------

  /// output[i] = op over ranks of input[i]. Both have `count` elements. In place: output == input.
  void allReduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op);
  Work allReduceAsync(const void* input, void* output, std::size_t count, DataType type,
                      ReduceOp op);

  /// As allReduce, on `root` only; elsewhere output is not used and may be null. In place: equal.
  void reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
              int root);
  Work reduceAsync(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
                   int root);

  /// Rank r gets elements [r*count, (r+1)*count) of the reduction. input has size()*count elements,
  /// output `count`. In place: output == input + rank()*count elements.
  void reduceScatter(const void* input, void* output, std::size_t count, DataType type,
                     ReduceOp op);
  Work reduceScatterAsync(const void* input, void* output, std::size_t count, DataType type,
                          ReduceOp op);

  /// Every rank's output gets root's input; both have `count` elements. input is used only on root
  /// and may be null elsewhere. In place: equal.
  void broadcast(const void* input, void* output, std::size_t count, DataType type, int root);
  Work broadcastAsync(const void* input, void* output, std::size_t count, DataType type, int root);

  /// Rank r's output (`count`) gets elements [r*count, (r+1)*count) of root's input (size()*count;
  /// elsewhere not used, may be null). In place, on root: output == input + root*count elements.
  void scatter(const void* input, void* output, std::size_t count, DataType type, int root);
  Work scatterAsync(const void* input, void* output, std::size_t count, DataType type, int root);

  /// root's output (size()*count; elsewhere not used, may be null) gets rank r's input (`count`) at
  /// r*count. In place, on root: input == output + root*count elements.
  void gather(const void* input, void* output, std::size_t count, DataType type, int root);
  Work gatherAsync(const void* input, void* output, std::size_t count, DataType type, int root);

  /// Every rank's output (size()*count) gets rank r's input (`count`) at r*count.
  /// In place: input == output + rank()*count elements.
  void allGather(const void* input, void* output, std::size_t count, DataType type);
  Work allGatherAsync(const void* input, void* output, std::size_t count, DataType type);

  /// Block s of rank r's output gets block r of rank s's input. Both have size()*count elements.
  /// Not in place: Error(invalid_argument) when the buffers overlap.
  void allToAll(const void* input, void* output, std::size_t count, DataType type);
  Work allToAllAsync(const void* input, void* output, std::size_t count, DataType type);

  // v-forms: blocks of different sizes. Counts and offsets are in elements of `type`. Sender and
  // receiver must tell the same count for a block, else Error(mismatch).

  /// As reduceScatter: rank r gets block r of the reduction, in `output` (blocks.counts[rank()]
  /// elements). `blocks`, which lie in input, must have the same counts on all ranks. In place:
  /// output == input + blocks.offsets[rank()] elements.
  void reduceScatterv(const void* input, Blocks blocks, void* output, DataType type, ReduceOp op);
  Work reduceScattervAsync(const void* input, Blocks blocks, void* output, DataType type,
                           ReduceOp op);

  /// Rank r's output (`count`) gets block r of root's input. input and blocks are used on root
  /// only. In place, on root: output == input + blocks.offsets[root] elements.
  void scatterv(const void* input, Blocks blocks, void* output, std::size_t count, DataType type,
                int root);
  Work scattervAsync(const void* input, Blocks blocks, void* output, std::size_t count,
                     DataType type, int root);

  /// Block r of root's output gets rank r's input (`count`). output and blocks are used on root
  /// only. In place, on root: input == output + blocks.offsets[root] elements.
  void gatherv(const void* input, std::size_t count, void* output, Blocks blocks, DataType type,
               int root);
  Work gathervAsync(const void* input, std::size_t count, void* output, Blocks blocks,
                    DataType type, int root);

  /// Block r of every rank's output gets rank r's input (`count`, which is blocks.counts[rank()]).
  /// The counts must be the same on all ranks; the offsets need not be.
  /// In place: input == output + blocks.offsets[rank()] elements.
  void allGatherv(const void* input, std::size_t count, void* output, Blocks blocks, DataType type);
  Work allGathervAsync(const void* input, std::size_t count, void* output, Blocks blocks,
                       DataType type);

  /// Block s of rank r's output gets block r of rank s's input. Blocks of input may overlap.
  /// Not in place: Error(invalid_argument) when the buffers' blocks overlap.
  void allToAllv(const void* input, Blocks input_blocks, void* output, Blocks output_blocks,
                 DataType type);
  Work allToAllvAsync(const void* input, Blocks input_blocks, void* output, Blocks output_blocks,
                      DataType type);

  /// Returns after every rank has entered.
  void barrier();
  Work barrierAsync();

  /// Matched by recv() of `peer` with the same count and type. peer may be this rank itself
  /// (then one of both must be Async or in a Group). A zero count is matched too.
  void send(const void* input, std::size_t count, DataType type, int peer);
  Work sendAsync(const void* input, std::size_t count, DataType type, int peer);
  void recv(void* output, std::size_t count, DataType type, int peer);
  Work recvAsync(void* output, std::size_t count, DataType type, int peer);

  /// For programs with a progress engine of their own: threads that wait in a call of this
  /// communicator call `poll`, from when the wait is no longer short (some 50 us) on all the time,
  /// in place of sleeping (Rondo's own threads never do). It must return soon, not throw, and not
  /// use this communicator. Not to be set while a call is in flight.
  void whileWaiting(std::function<void()> poll);

  /// Name of the algorithm that a call of this shape uses, e.g. "ring".
  std::string algorithmFor(Collective collective, std::size_t count, DataType type) const;
  /// Grows by calls that need channels or scratch that none before needed, not by repeating calls.
  MemoryUse memory() const;
  /// Name of the transport to a peer ("inproc", "shm", "tcp"; between devices "nvlink", "pcie",
  /// "tcp"; "self" for this rank).
  std::string transportTo(int peer) const;

 private:
  friend class Group;
  explicit Communicator(std::shared_ptr<comm::CommunicatorImpl> impl);
  std::shared_ptr<comm::CommunicatorImpl> impl_;
};

/// A way for a rank to reach another.
struct TransportInfo {
  std::string name;
  std::string summary;    ///< one line
  bool between_processes; ///< false: only between ranks that are threads of one process
  bool between_devices; ///< for communicators with Options::device; of the others these use streams
};

/// Those of this build: the words of Options::transports. Of either kind the fastest first.
RONDO_API std::vector<TransportInfo> transports();

/// Calls made by this thread while a Group exists only take note of the call: blocking calls return
/// at once (their outputs are not ready), Async calls return a Work that is done when the group is.
/// end() starts all of them, one communicator's after the other's, and waits. Groups nest; the
/// outermost counts.
class RONDO_API Group {
 public:
  Group();
  /// Starts what end() did not, and waits; errors are logged, not thrown. Call end() to get them.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Throws the first error among the calls.
  void end();
  /// As end(), without waiting.
  Work start();

 private:
  Work leave(bool attended);
  bool open_ = true;
};

} // namespace rondo
