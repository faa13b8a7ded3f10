// The front door: a communicator and its collectives.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rondo/buffer.h"
#include "rondo/error.h"
#include "rondo/export.h"
#include "rondo/options.h"
#include "rondo/place.h"
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
/// Devices. With Options::device the buffers are memory of a GPU, and calls go to streams: what is
/// different then stands in stream.h.
class RONDO_API Communicator {
 public:
  /// Meets the other ranks. Throws Error(init_failed) that lists missing ranks at the deadline.
  static Communicator create(const Rendezvous& meet,
                             const Options& options = Options::fromEnvironment());
  /// `size` in-process ranks, made by one thread; element r is rank r. Blocking calls on them need
  /// a thread each, or a Group.
  static std::vector<Communicator> createAll(int size,
                                             const Options& options = Options::fromEnvironment());
  /// As create(), on a thread of its own: one thread may make several ranks at once, and go on
  /// meanwhile. get() throws what create() would have. A future that is dropped waits for the
  /// thread, which ends by the deadline of Options::init_timeout.
  static std::future<Communicator> createAsync(const Rendezvous& meet,
                                               const Options& options = Options::fromEnvironment());

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Waits (within the timeout) for outstanding work of this rank; does not wait for other ranks,
  /// but until the network has taken what is for them. Calls in flight on other ranks that cannot
  /// end without this rank throw an Error that names it, as its culprit too: peer_dead, "rank 1
  /// left without entering AllReduce #3"; or timeout, "rank 1 closed the communicator with
  /// AllReduce #3 in flight", where this rank's own call had not ended by the timeout. In a child
  /// made by fork() it drops the copy and does nothing else. That, ending and executing a program
  /// is all that a child may do with what it inherits from Rondo; its copies of connections are
  /// dead, so the rank's own end shows. (Not even that with a std::future that is not ready yet:
  /// the standard library would wait there for a thread that the child does not have.)
  /// A process that hosts the control plane hands it on where other ranks go on: with its last
  /// communicator, which waits for the others 50 ms first, and when it ends by exit() or from
  /// main(). One that ends by _exit() amid all that, or made the unique id and is no rank, hands on
  /// nothing: calls that others have in flight by then, or begin later, fail with peer_dead.
  ~Communicator();

  int rank() const;
  int size() const;

  /// Collective. Ranks with equal `color` form a communicator, ordered by `key`, ties by rank.
  /// color kNoColor: nothing is returned.
  static constexpr int kNoColor = -1;
  std::optional<Communicator> split(int color, int key);
  /// As split(), on a thread of its own; splits of one communicator are made in the order of the
  /// calls. See createAsync().
  std::future<std::optional<Communicator>> splitAsync(int color, int key);

  /// Collective: tells all ranks some bytes of this one, at most 16 KiB; element r of what returns
  /// is rank r's. For what ranks must agree on between calls: it goes the way of split(), so it is
  /// in order with splits and other exchanges only, and moves nothing of the calls beside it.
  /// Errors as of split(); Error(invalid_argument) for more bytes.
  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> own);
  /// As exchange(), on a thread of its own; `own` is read before it returns. See splitAsync().
  std::future<std::vector<std::vector<std::byte>>> exchangeAsync(std::span<const std::byte> own);

  /// Collective over the ranks that are not in `excluded`, which take no part in it and may be
  /// dead: a communicator of the others, in the same order. It works after this one has failed,
  /// unless it lost the rank whose process hosts the control plane. Throws Error(invalid_argument)
  /// for what is no rank, or this one; Error(timeout) where ranks exclude different ones.
  Communicator shrink(std::span<const int> excluded);
  /// As shrink(), on a thread of its own. See createAsync().
  std::future<Communicator> shrinkAsync(std::span<const int> excluded);

  /// From any thread, any time, any number of times: every pending and later call of every rank of
  /// this communicator ends with Error(aborted) that holds `reason`.
  void abort(const std::string& reason);
  /// What the communicator has failed with, if it has; looks without waiting, from any thread. It
  /// is there whether or not a call meets it: a rank's death within a second.
  std::optional<Error> failure() const;

  /// Options::timeout of this rank's calls from now on, also of those in flight. From any thread,
  /// any time. Throws Error(invalid_argument) for what Options would not take, Error(unsupported)
  /// with Options::device.
  void setTimeout(std::chrono::milliseconds timeout);

  /// Calls from now on go to this stream of Options::device, in the manner of cublasSetStream();
  /// until then to the default stream. The calls on the stream before still run first. The stream
  /// must live until they have. Calls of a Group keep the stream that was set when they were made;
  /// its sends and receives see what all their streams did before. A communicator that split()
  /// returns begins with the default stream. Throws Error(unsupported) where buffers are in host
  /// memory, and for a stream that may use only a part of the device (of a green context);
  /// Error(invalid_argument) for cudaStreamPerThread, and for a stream that another rank of this
  /// process uses.
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
  //
  // What holds for all of them, beside what the class says. Every rank of the communicator calls,
  // with the same count, type, operator and root. An element of a reduction is one application of
  // `op` to the ranks' contributions; 16- and 8-bit floats are combined in fp32. Errors:
  // invalid_argument for what is wrong with this rank's arguments (the text names the call and the
  // argument; nothing was sent), unsupported for an operator that the type does not have, mismatch
  // where ranks differ, and what ends a communicator: peer_dead, unresponsive, timeout, aborted,
  // transport, system. How the algorithms work, and what they cost, stands at the heads of
  // src/algorithms/*.cc; `rondo plan` shows them.

  /// Combines one vector of every rank, and gives all ranks the result: output[i] is `op` over the
  /// ranks' input[i]. Both buffers have `count` elements. In place: output == input. The order in
  /// which contributions are combined depends on the algorithm; with Options::deterministic it is
  /// the order of the ranks.
  ///
  ///     std::vector<float> gradients(1000, comm.rank() + 1.0F);
  ///     comm.allReduce(gradients.data(), gradients.data(), gradients.size(),
  ///                    DataType::float32, ReduceOp::avg);
  void allReduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op);
  Work allReduceAsync(const void* input, void* output, std::size_t count, DataType type,
                      ReduceOp op);

  /// Does what allReduce does, for `root` alone. Both buffers have `count` elements; on other ranks
  /// output is not used, and may be null. In place: output == input.
  void reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
              int root);
  Work reduceAsync(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
                   int root);

  /// Combines one vector of every rank, and gives each rank its part: rank r gets elements
  /// [r*count, (r+1)*count) of the result. input has size()*count elements, output has `count`. In
  /// place: output == input + rank()*count elements. Order as
  /// in allReduce.
  void reduceScatter(const void* input, void* output, std::size_t count, DataType type,
                     ReduceOp op);
  Work reduceScatterAsync(const void* input, void* output, std::size_t count, DataType type,
                          ReduceOp op);

  /// Copies a vector of `root` to all ranks. Both buffers have `count` elements; input is used on
  /// root alone, and may be null elsewhere. In place: output == input.
  ///
  ///     std::vector<float> weights(64, comm.rank() == 0 ? 0.5F : 0.0F);
  ///     comm.broadcast(weights.data(), weights.data(), weights.size(), DataType::float32,
  ///                    0);
  void broadcast(const void* input, void* output, std::size_t count, DataType type, int root);
  Work broadcastAsync(const void* input, void* output, std::size_t count, DataType type, int root);

  /// Deals out a vector of `root`: rank r gets its elements [r*count, (r+1)*count). input has
  /// size()*count elements, and is used on root alone (elsewhere it may be null); output has
  /// `count`. In place, on root: output == input + root*count elements.
  void scatter(const void* input, void* output, std::size_t count, DataType type, int root);
  Work scatterAsync(const void* input, void* output, std::size_t count, DataType type, int root);

  /// Collects a vector of every rank on `root`, rank r's at r*count. input has `count` elements;
  /// output has size()*count, and is used on root alone (elsewhere it may be null). In place, on
  /// root: input == output + root*count elements.
  void gather(const void* input, void* output, std::size_t count, DataType type, int root);
  Work gatherAsync(const void* input, void* output, std::size_t count, DataType type, int root);

  /// Collects a vector of every rank on all ranks, rank r's at r*count. input has `count` elements,
  /// output has size()*count. In place: input == output + rank()*count elements.
  ///
  ///     const std::int32_t mine = comm.rank() * comm.rank();
  ///     std::vector<std::int32_t> squares(static_cast<std::size_t>(comm.size()));
  ///     comm.allGather(&mine, squares.data(), 1, DataType::int32);
  void allGather(const void* input, void* output, std::size_t count, DataType type);
  Work allGatherAsync(const void* input, void* output, std::size_t count, DataType type);

  /// Gives every rank a block of every rank: block s of rank r's output is block r of rank s's
  /// input. Both buffers have size() blocks of `count` elements. Not in place: buffers that overlap
  /// are Error(invalid_argument).
  void allToAll(const void* input, void* output, std::size_t count, DataType type);
  Work allToAllAsync(const void* input, void* output, std::size_t count, DataType type);

  // v-forms: blocks of different sizes. Counts and offsets are in elements of `type`. Sender and
  // receiver must tell the same count for a block, else Error(mismatch).

  /// Does what reduceScatter does, with blocks of any sizes: rank r gets block r of the result.
  /// `blocks` lie in input, and must have the same counts on all ranks; output has
  /// blocks.counts[rank()] elements. In place: output == input + blocks.offsets[rank()] elements.
  void reduceScatterv(const void* input, Blocks blocks, void* output, DataType type, ReduceOp op);
  Work reduceScattervAsync(const void* input, Blocks blocks, void* output, DataType type,
                           ReduceOp op);

  /// Does what scatter does, with blocks of any sizes: rank r's output, of `count` elements, gets
  /// block r of root's input. input and blocks are used on root alone. In place, on root: output ==
  /// input + blocks.offsets[root] elements.
  void scatterv(const void* input, Blocks blocks, void* output, std::size_t count, DataType type,
                int root);
  Work scattervAsync(const void* input, Blocks blocks, void* output, std::size_t count,
                     DataType type, int root);

  /// Does what gather does, with blocks of any sizes: block r of root's output gets rank r's input,
  /// of `count` elements. output and blocks are used on root alone. In place, on root: input ==
  /// output + blocks.offsets[root] elements.
  void gatherv(const void* input, std::size_t count, void* output, Blocks blocks, DataType type,
               int root);
  Work gathervAsync(const void* input, std::size_t count, void* output, Blocks blocks,
                    DataType type, int root);

  /// Does what allGather does, with blocks of any sizes: block r of every rank's output gets rank
  /// r's input, of `count` elements, which is blocks.counts[rank()]. The counts must be the same on
  /// all ranks; the offsets need not be. In place: input == output + blocks.offsets[rank()]
  /// elements.
  ///
  ///     // Rank r has r + 1 elements.
  ///     std::vector<std::size_t> counts, offsets;
  ///     std::size_t all = 0;
  ///     for (int r = 0; r < comm.size(); ++r) {
  ///       counts.push_back(static_cast<std::size_t>(r) + 1);
  ///       offsets.push_back(all);
  ///       all += counts.back();
  ///     }
  ///     const std::vector<float> part(counts[static_cast<std::size_t>(comm.rank())], 1.0F);
  ///     std::vector<float> whole(all);
  ///     comm.allGatherv(part.data(), part.size(), whole.data(), {counts, offsets},
  ///                     DataType::float32);
  void allGatherv(const void* input, std::size_t count, void* output, Blocks blocks, DataType type);
  Work allGathervAsync(const void* input, std::size_t count, void* output, Blocks blocks,
                       DataType type);

  /// Does what allToAll does, with blocks of any sizes: block s of rank r's output gets block r of
  /// rank s's input. Blocks of input may overlap each other. Not in place: blocks of the two
  /// buffers that overlap are Error(invalid_argument).
  void allToAllv(const void* input, Blocks input_blocks, void* output, Blocks output_blocks,
                 DataType type);
  Work allToAllvAsync(const void* input, Blocks input_blocks, void* output, Blocks output_blocks,
                      DataType type);

  /// Returns after every rank has entered.
  void barrier();
  Work barrierAsync();

  /// Sends a vector to `peer`, whose recv() with the same count and type it matches, in the order
  /// of the calls between the two. Returns when the buffer may be changed, which may be before the
  /// peer has received. peer may be this rank itself (then one of both is Async or in a Group). A
  /// count of zero is matched too. Errors: as of collectives; another count or type is mismatch on
  /// all ranks.
  ///
  ///     std::int64_t token = comm.rank(), from_left = -1;
  ///     const int right = (comm.rank() + 1) % comm.size();
  ///     const int left = (comm.rank() + comm.size() - 1) % comm.size();
  ///     Group group; // both at once: nobody waits for a neighbour that waits
  ///     comm.send(&token, 1, DataType::int64, right);
  ///     comm.recv(&from_left, 1, DataType::int64, left);
  ///     group.end();
  void send(const void* input, std::size_t count, DataType type, int peer);
  Work sendAsync(const void* input, std::size_t count, DataType type, int peer);
  /// Receives what `peer` sends with send(). output has `count` elements.
  void recv(void* output, std::size_t count, DataType type, int peer);
  Work recvAsync(void* output, std::size_t count, DataType type, int peer);

  /// For programs with a progress engine of their own: threads that wait in a call of this
  /// communicator call `poll`, from when the wait is no longer short (some 50 us) on all the time,
  /// in place of sleeping (Rondo's own threads never do). It must return soon, and not throw. It
  /// may itself wait for calls and futures, also of this communicator, and is not called again on
  /// that thread meanwhile. Not to be set while a call is in flight.
  void whileWaiting(std::function<void()> poll);

  /// Name of the algorithm that a call of this shape uses, e.g. "ring".
  std::string algorithmFor(Collective collective, std::size_t count, DataType type) const;
  /// Grows by calls that need channels or scratch that none before needed, not by repeating calls.
  MemoryUse memory() const;
  /// Where a rank runs, as it was when the communicator was made. Throws Error(invalid_argument).
  const Place& placeOf(int rank) const;
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
  std::string missing;  ///< why this build has not got it; empty: it has
};

/// The words of Options::transports, with those that this build has not got. Of either kind the
/// fastest first.
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
  /// Ends it, and makes none of its calls: their Works are done, with Error(aborted). A group that
  /// is within another leaves its calls to that one.
  void drop();
  /// How long the calls of this thread's groups will take, for the links that `rondo plan` assumes:
  /// those of a communicator one after the other, communicators beside each other.
  std::chrono::nanoseconds predict() const;

 private:
  Work leave(bool attended);
  bool open_ = true;
};

} // namespace rondo
