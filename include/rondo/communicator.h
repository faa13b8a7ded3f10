// Communicator: a group of ranks and the collectives that they call. Start here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rondo/buffer.h"
#include "rondo/collective_call.h"
#include "rondo/error.h"
#include "rondo/explanation.h"
#include "rondo/export.h"
#include "rondo/group.h"
#include "rondo/memory_use.h"
#include "rondo/options.h"
#include "rondo/place.h"
#include "rondo/rendezvous.h"
#include "rondo/stream.h"
#include "rondo/typed_calls.h"
#include "rondo/types.h"
#include "rondo/work.h"

namespace rondo {

namespace comm {
class CommunicatorImpl;
}
namespace detail {
struct Shims;
}

/// A span that the program adds to the trace of a rank, for example a training step.
struct TraceSpan {
  std::string lane; ///< row of the trace; its spans may contain each other, but not overlap partly
  std::string name;
  std::chrono::steady_clock::time_point begin, end;
  std::int64_t step = -1;  ///< shown with the span; negative: not shown
  std::uint64_t bytes = 0; ///< the same; 0: not shown
};

/// A fixed group of ranks that call collectives together.
///
/// Calls. Each collective has two forms: the plain form returns when the result is complete;
/// the Async form returns a Work at once. All ranks must make the same collective calls in the
/// same order (Send and Recv concern their two ranks only). A difference is Error(mismatch) on
/// every rank. Collectives of one communicator run in the order of the calls. Sends to one peer
/// run in the order of the calls, and so do receives from one peer; both are independent of all
/// other calls.
///
/// Buffers. Counts are in elements of `type`. A buffer may be null if its element count is zero.
/// Input and output must not overlap, except in place as each call describes. Outputs are defined
/// only after success. Any alignment works.
///
/// Ranks. A rank is a Communicator object. One process may hold any number of ranks, of the same or
/// of different groups. Threads may use one object at the same time; the program must then ensure
/// that its calls have the same order on all ranks. After an error of a collective, a Send or a
/// Recv with any code but invalid_argument and unsupported, the communicator has failed, and all
/// later calls on it fail too. The comments of other functions list their errors.
///
/// Results. With Options::deterministic, floating-point results do not depend on the algorithm, the
/// transport or the message size. Without it, they depend only on the algorithm that was chosen for
/// the size.
///
/// Devices. With Options::device, buffers are in the memory of a GPU, and calls go to streams.
/// stream.h describes the differences.
class RONDO_API Communicator : public TypedCalls<Communicator> {
 public:
  /// Meets the other ranks and returns this rank's communicator. Throws Error(init_failed) if they
  /// have not met within Options::init_timeout, and the text lists the missing ranks; or at once if
  /// the process that made the unique id has ended. Each later stage may take that long, too. Also
  /// throws Error(invalid_argument) for options, an id or variables of the launcher that are not
  /// valid, Error(mismatch) if only some ranks name a device, Error(data) for a file of Options
  /// that cannot be used, Error(unsupported), Error(system); and Error(timeout) or Error(peer_dead)
  /// if a rank fails after all have met.
  static Communicator create(const Rendezvous& meet,
                             const Options& options = Options::fromEnvironment());
  /// Returns `size` ranks in this process; element r is rank r. Blocking calls need one thread for
  /// each rank, or a Group. All have the same Options; to give each rank a device of its own, use
  /// Rendezvous::inProcess() and createAsync(). Throws the errors of create(), and
  /// Error(invalid_argument) if `size` is not 1 to 65536.
  static std::vector<Communicator> createAll(int size,
                                             const Options& options = Options::fromEnvironment());
  /// Does what create() does, on a new thread, so that one thread can create several ranks at once.
  /// get() throws the errors of create(); createAsync() itself throws Error(system) if no thread
  /// can be started. The destructor of an unused future waits for that thread.
  static std::future<Communicator> createAsync(const Rendezvous& meet,
                                               const Options& options = Options::fromEnvironment());

  /// After a move the source may only be destroyed or assigned to.
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept; ///< swaps: the source then holds the old one
  /// Waits until the outstanding calls of this rank have completed, at most for Options::timeout,
  /// and until the network has taken the messages that this rank sent. A call that needs other
  /// ranks completes only when they make it too. The destructor does not wait until the other ranks
  /// destroy their communicators. When it returns, this rank has left the group, even if Works and
  /// Buffers still exist. Exceptions: the rank stays until a splitAsync(), exchangeAsync(),
  /// growAsync() or shrinkAsync() has ended, and until a Group that another thread waits for and
  /// that has calls of other communicators, too, has ended.
  ///
  /// Calls in flight on other ranks that cannot complete without this rank throw an Error whose
  /// text and culprit() name this rank. The code is peer_dead ("rank 1 left without entering
  /// AllReduce #3"), or, if this rank's own call had not completed by the timeout, timeout ("rank 1
  /// closed the communicator while AllReduce #3 ... was in flight").
  ///
  /// After fork(): in the child, the destructor drops the copy and does nothing else. The child may
  /// only destroy what it inherited from Rondo, exit, or execute a program; it must not even
  /// destroy a std::future that is not ready, since the standard library would wait for a thread
  /// that the child does not have. The child's copies of connections are closed, so the other ranks
  /// still notice when the parent's rank ends.
  ///
  /// Control plane: if this process hosts the control plane and other ranks go on, it hands the
  /// control plane over to another process. It does so when its last communicator is destroyed
  /// (after waiting for the other ranks for up to 50 ms), and when the process ends by exit() or by
  /// returning from main(). A process that ends by _exit() before the hand-over, or that created
  /// the unique id without being a rank, hands over nothing: calls of other ranks that are in
  /// flight then, or begin later, fail with peer_dead, as when the process is killed. shrink() then
  /// makes a communicator of the other ranks.
  ~Communicator();

  int rank() const;
  int size() const;

  /// Collective. Makes one communicator for each value of `color`. Its ranks are ordered by `key`;
  /// equal keys are ordered by the rank in this communicator. A rank with color kNoColor must call
  /// it, too, and gets nothing. Do not use the colors -2 and -3 (this is not checked).
  ///
  /// Throws Error(timeout), which names the late ranks, if one does not call it within
  /// Options::init_timeout; Error(mismatch) if others call exchange() or grow() instead;
  /// Error(peer_dead) if a rank has left or died. After these errors this communicator has failed;
  /// after errors of create(), while the new one is opened, it can still be used.
  static constexpr int kNoColor = -1;
  std::optional<Communicator> split(int color, int key);
  /// Does what split() does, on a new thread. Several splits of one communicator are made in the
  /// order of the calls. See createAsync().
  std::future<std::optional<Communicator>> splitAsync(int color, int key);

  /// Collective. Sends `own`, at most 16 KiB, to all ranks; element r of the result is what rank r
  /// passed. Ranks may pass different numbers of bytes, also none. It uses the control plane, as
  /// split() does, and makes no progress on other calls. All ranks make splits, exchanges and
  /// grow() in the same order, but in any order with other calls. Errors: those of split();
  /// Error(invalid_argument) for more than 16 KiB.
  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> own);
  /// Does what exchange() does, on a new thread; copies `own` first. See splitAsync().
  std::future<std::vector<std::vector<std::byte>>> exchangeAsync(std::span<const std::byte> own);

  /// Collective over the ranks that are not in `excluded`. Returns a communicator of these ranks,
  /// in the same order. The excluded ranks take no part and may be dead. It works after this
  /// communicator has failed, also if the process that hosts the control plane died: another rank
  /// then takes it over. Each stage waits at most Options::init_timeout. Throws
  /// Error(invalid_argument) if `excluded` has a number that is not a rank, or has this rank;
  /// Error(timeout) if ranks exclude different ranks; Error(peer_dead) if a rank that is not
  /// excluded dies meanwhile.
  ///
  /// Throws Error(unresponsive) if this rank can reach too few of the others. Of the ranks of the
  /// job that have not ended, more than half must reach each other to make a communicator, or half
  /// of them, if the lowest rank is among these. So a job whose network is cut in two continues in
  /// one part only.
  Communicator shrink(std::span<const int> excluded);
  /// Does the same, but the ranks agree which to exclude: those that have died, do not respond, or
  /// have destroyed their communicator. All others must call it. A rank that dies meanwhile is
  /// excluded too. Throws Error(timeout) after Options::init_timeout if a living rank does not call
  /// it, and Error(unresponsive) as above. A rank that the others excluded because it did not
  /// respond gets Error(unresponsive), too.
  Communicator shrink();
  /// Does what shrink() does, on a new thread. See createAsync().
  std::future<Communicator> shrinkAsync(std::span<const int> excluded);
  std::future<Communicator> shrinkAsync();

  /// Collective. Returns a communicator of the ranks of this one, in the same order, and of
  /// `newcomers` more, which get the next ranks in the order in which they called join(). A process
  /// of this job, or another one, makes an id and gives it to the newcomers and at least one rank:
  ///
  ///     const UniqueId id = UniqueId::create();
  ///
  /// All ranks call grow(), and each newcomer calls join():
  ///
  ///     comm = comm.rank() == 0 ? comm.grow(1, id) : comm.grow(1);
  ///
  ///     const Communicator newcomer = Communicator::join(id);
  ///
  /// The new communicator is a job of its own, whose control plane begins in the process that made
  /// the id. So it does not matter who hosted that of this one, or whether it lives. After a
  /// failure call shrink() first. An id serves one grow(). The order rule of exchange() holds.
  ///
  /// Either all ranks of this communicator throw, or none. After these errors it can still be used:
  /// Error(init_failed) if newcomers do not come within Options::init_timeout or die while they
  /// join (culprit(): the rank in the new communicator), or if the id's rendezvous cannot be
  /// reached; Error(invalid_argument) if a number or id is not valid or differs between ranks, or
  /// if no rank has an id. After other errors this communicator has failed, as in split(); among
  /// them Error(timeout) of the last stage, in which the old ranks wait for each other for up to
  /// three times init_timeout.
  Communicator grow(int newcomers);
  Communicator grow(int newcomers, const UniqueId& id);
  /// Does what grow() does, on a new thread. See splitAsync().
  std::future<Communicator> growAsync(int newcomers, const std::optional<UniqueId>& id = {});
  /// Waits until a communicator grows at this id, at most for Options::init_timeout, and returns
  /// this rank's communicator. Throws Error(init_failed), which says why this rank cannot join: the
  /// id was withdrawn, its process has ended, another version or secret, the ranks have met without
  /// this one, or none has called grow(). If grow() fails on the others when this rank has joined
  /// already, its first call throws Error(aborted).
  static Communicator join(const UniqueId& id, const Options& options = Options::fromEnvironment());
  /// Does what join() does, on a new thread. See createAsync().
  static std::future<Communicator> joinAsync(const UniqueId& id,
                                             const Options& options = Options::fromEnvironment());

  // After shrink(), grow() and split() the old communicator can still be used if it has not failed.
  // Buffers from allocate() and registerBuffer() remain, also after a failure: all communicators of
  // the process can use them. The new communicator has the old one's Options, with the timeout that
  // is set now, but not its setStream(); its first call of each shape makes plans and channels.
  // Messages of one communicator never reach another one.

  /// Ends every pending and later call of every rank of this communicator with Error(aborted),
  /// whose text contains `reason`, as MPIX_Comm_revoke and ncclCommRevoke do. If it has failed
  /// already, calls end with the first error instead. (With Options::patient, after the death of a
  /// rank, abort() ends only this rank's calls at once.) May be called from any thread, and
  /// repeatedly. shrink() then makes a communicator of the same ranks.
  void abort(const std::string& reason);
  /// Returns the error with which the communicator has failed, or nothing. It never waits, and may
  /// be called from any thread. The death of a rank appears within a second, also without a call.
  std::optional<Error> failure() const;

  /// Sets Options::timeout of this rank, for later calls and for calls in flight. May be called
  /// from any thread, at any time. Throws Error(invalid_argument) for a value that Options does not
  /// allow; Error(unsupported) with Options::device.
  void setTimeout(std::chrono::milliseconds timeout);

  /// Sends later calls to this stream of Options::device, as cublasSetStream() does. Before the
  /// first setStream(), calls go to the default stream. A call on the new stream runs after the
  /// earlier calls on the old one. The stream must live until its calls are done. Calls of a Group
  /// use the stream that was set when they were made; the sends and receives of the group run after
  /// everything that was put on any of these streams before. A communicator from split() begins
  /// with the default stream. Throws Error(unsupported) if buffers are in host memory, and for a
  /// stream that may use only a part of the device (a green context); Error(invalid_argument) for
  /// cudaStreamPerThread, and for a stream that another rank of this process uses.
  void setStream(Stream stream);

  /// Returns `bytes` bytes of zeroed, page-aligned memory that peers on this machine read in place.
  /// `bytes` may be 0. Throws Error(system); Error(unsupported) with Options::device.
  Buffer allocate(std::size_t bytes);
  /// Turns memory that the program already has into such a buffer. Address and contents stay.
  /// It must be whole pages of private anonymous memory; large blocks from malloc() are,
  /// except for the partial pages at both ends. No other thread may touch it during the call. The
  /// memory remains the program's: destroy the Buffer before you free it.
  /// Throws Error(invalid_argument) for null, 0 bytes, parts of pages and memory that a call uses,
  /// Error(unsupported) for other kinds of memory and with Options::device, Error(system).
  Buffer registerBuffer(void* data, std::size_t bytes);

  // Collectives ---------------------------------------------------------------------------------
  //
  // Rules for all collectives. Every rank of the communicator makes the call, with the same
  // count, type, operator and root. A reduction applies `op` to the ranks' contributions element by
  // element; 16- and 8-bit floats are combined in fp32. Errors: invalid_argument if this rank's
  // arguments are wrong, or the operator is not defined on the type (the text names the call and
  // the argument; nothing was sent); unsupported if no allowed algorithm can serve the call, or
  // Options::channel_bytes is too small for it. After the others the communicator has failed:
  // mismatch (the ranks' calls differ), peer_dead, unresponsive, timeout, aborted, transport,
  // system, wrong_result. The head of an algorithm's file in src/algorithms says how it works, and
  // what it costs.

  // Each call also has a form for arrays, from which count and type follow: typed_calls.h.
#define RONDO_CALL(function, ...) using TypedCalls::function, TypedCalls::function##Async;
#include "rondo/detail/collectives.def"
  using TypedCalls::recv, TypedCalls::recvAsync;
  using TypedCalls::send, TypedCalls::sendAsync;

  /// Makes any of the calls below. For code that takes the collective as a value, as benchmarks and
  /// bindings do.
  void call(const CollectiveCall& call);
  Work callAsync(const CollectiveCall& call);
  /// The same by this algorithm, whatever Options and a rules file say: one name, with its
  /// parameter, as in RONDO_ALGO ("ring", "parameter_server/4", "hierarchical(linear,ring)"). All
  /// ranks must name the same one, or none; otherwise it is Error(mismatch). Sends nothing and
  /// throws Error(invalid_argument) for a Send, a Recv, an unknown algorithm and one that cannot do
  /// the collective; Error(unsupported) for one that cannot serve this number of ranks, blocks of
  /// different sizes or Options::deterministic.
  ///
  ///     std::vector<float> sum(1000, comm.rank() + 1.0F);
  ///     const CollectiveCall call{.collective = Collective::allreduce,
  ///                               .input = sum.data(),
  ///                               .output = sum.data(),
  ///                               .count = sum.size(),
  ///                               .type = DataType::float32};
  ///     comm.call(call, "ring");
  void call(const CollectiveCall& call, std::string_view algorithm);
  Work callAsync(const CollectiveCall& call, std::string_view algorithm);

  /// Combines one vector of every rank and gives the result to all ranks: output[i] is `op` over
  /// the ranks' input[i]. Both buffers have `count` elements. In place: output == input. The order
  /// in which contributions are combined depends on the algorithm; with Options::deterministic it
  /// is the order of the ranks.
  ///
  ///     std::vector<float> gradients(1000, comm.rank() + 1.0F);
  ///     comm.allReduce(gradients.data(), gradients.data(), gradients.size(),
  ///                    DataType::float32, ReduceOp::avg);
  void allReduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op);
  Work allReduceAsync(const void* input, void* output, std::size_t count, DataType type,
                      ReduceOp op);

  /// Does what allReduce does, but only `root` gets the result. Both buffers have `count` elements;
  /// output is not used on other ranks, and may be null there. In place: output == input.
  void reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
              int root);
  Work reduceAsync(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
                   int root);

  /// Combines one vector of every rank and gives each rank its part: rank r gets elements [r*count,
  /// (r+1)*count) of the result. input has size()*count elements, output has `count`. In place:
  /// output == input + rank()*count elements. The order is that of allReduce.
  void reduceScatter(const void* input, void* output, std::size_t count, DataType type,
                     ReduceOp op);
  Work reduceScatterAsync(const void* input, void* output, std::size_t count, DataType type,
                          ReduceOp op);

  /// Copies the vector of `root` to all ranks. Both buffers have `count` elements; input is used on
  /// root only, and may be null elsewhere. In place: output == input.
  ///
  ///     std::vector<float> model(64, comm.rank() == 0 ? 0.5F : 0.0F);
  ///     comm.broadcast(model.data(), model.data(), model.size(), DataType::float32, 0);
  void broadcast(const void* input, void* output, std::size_t count, DataType type, int root);
  Work broadcastAsync(const void* input, void* output, std::size_t count, DataType type, int root);

  /// Distributes the vector of `root`: rank r gets elements [r*count, (r+1)*count). input has
  /// size()*count elements; it is used on root only, and may be null elsewhere. output has `count`
  /// elements. In place, on root: output == input + root*count elements.
  void scatter(const void* input, void* output, std::size_t count, DataType type, int root);
  Work scatterAsync(const void* input, void* output, std::size_t count, DataType type, int root);

  /// Collects one vector of every rank on `root`: the vector of rank r begins at element r*count.
  /// input has `count` elements. output has size()*count elements; it is used on root only, and may
  /// be null elsewhere. In place, on root: input == output + root*count elements.
  void gather(const void* input, void* output, std::size_t count, DataType type, int root);
  Work gatherAsync(const void* input, void* output, std::size_t count, DataType type, int root);

  /// Collects one vector of every rank on all ranks: the vector of rank r begins at element
  /// r*count. input has `count` elements, output has size()*count. In place: input == output +
  /// rank()*count elements.
  ///
  ///     const std::int32_t mine = comm.rank() * comm.rank();
  ///     std::vector<std::int32_t> squares(static_cast<std::size_t>(comm.size()));
  ///     comm.allGather(&mine, squares.data(), 1, DataType::int32);
  void allGather(const void* input, void* output, std::size_t count, DataType type);
  Work allGatherAsync(const void* input, void* output, std::size_t count, DataType type);

  /// Exchanges blocks between all pairs of ranks: block s of rank r's output is block r of rank s's
  /// input. Both buffers have size() blocks of `count` elements. Not in place: buffers that overlap
  /// are Error(invalid_argument).
  void allToAll(const void* input, void* output, std::size_t count, DataType type);
  Work allToAllAsync(const void* input, void* output, std::size_t count, DataType type);

  /// Combines the vectors of ranks 0 to rank(), in this order: output[i] of rank r is `op` over
  /// input[i] of ranks 0 to r (MPI_Scan). Both buffers have `count` elements. In place: output ==
  /// input. The contributions may be grouped differently by different algorithms, but are never
  /// reordered; with Options::deterministic they are combined from rank 0 on. ReduceOp::avg divides
  /// by size() on every rank.
  ///
  ///     std::int32_t elements = 3 * comm.rank(), end = 0; // of this rank; of all up to this
  ///     comm.scan(&elements, &end, 1, DataType::int32, ReduceOp::sum);
  void scan(const void* input, void* output, std::size_t count, DataType type, ReduceOp op);
  Work scanAsync(const void* input, void* output, std::size_t count, DataType type, ReduceOp op);

  /// Does what scan() does, without this rank's own vector: output[i] of rank r is `op` over
  /// input[i] of ranks 0 to r - 1 (MPI_Exscan). Rank 0's output is left unchanged, and may be null.
  /// In place: output == input, on all ranks.
  void exclusiveScan(const void* input, void* output, std::size_t count, DataType type,
                     ReduceOp op);
  Work exclusiveScanAsync(const void* input, void* output, std::size_t count, DataType type,
                          ReduceOp op);

  // v-forms: blocks of different sizes. Counts and offsets are in elements of `type`. Sender and
  // receiver must pass the same count for a block, or the call is Error(mismatch).

  /// Does what reduceScatter does, with blocks of different sizes: rank r gets block r of the
  /// result. `blocks` describes input, and its counts must be the same on all ranks. output has
  /// blocks.counts[rank()] elements. In place: output == input + blocks.offsets[rank()] elements.
  void reduceScatterv(const void* input, Blocks blocks, void* output, DataType type, ReduceOp op);
  Work reduceScattervAsync(const void* input, Blocks blocks, void* output, DataType type,
                           ReduceOp op);

  /// Does what scatter does, with blocks of different sizes: rank r's output, of `count` elements,
  /// gets block r of root's input. input and blocks are used on root only. In place, on root:
  /// output == input + blocks.offsets[root] elements.
  void scatterv(const void* input, Blocks blocks, void* output, std::size_t count, DataType type,
                int root);
  Work scattervAsync(const void* input, Blocks blocks, void* output, std::size_t count,
                     DataType type, int root);

  /// Does what gather does, with blocks of different sizes: block r of root's output gets rank r's
  /// input, of `count` elements. output and blocks are used on root only. In place, on root: input
  /// == output + blocks.offsets[root] elements.
  void gatherv(const void* input, std::size_t count, void* output, Blocks blocks, DataType type,
               int root);
  Work gathervAsync(const void* input, std::size_t count, void* output, Blocks blocks,
                    DataType type, int root);

  /// Does what allGather does, with blocks of different sizes: block r of every rank's output gets
  /// rank r's input. input has `count` elements, and `count` must be blocks.counts[rank()]. The
  /// counts must be the same on all ranks; the offsets may differ. In place: input == output +
  /// blocks.offsets[rank()] elements.
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

  /// Does what allToAll does, with blocks of different sizes: block s of rank r's output gets block
  /// r of rank s's input. Blocks of input may overlap each other. Not in place: an input block that
  /// overlaps an output block is Error(invalid_argument).
  void allToAllv(const void* input, Blocks input_blocks, void* output, Blocks output_blocks,
                 DataType type);
  Work allToAllvAsync(const void* input, Blocks input_blocks, void* output, Blocks output_blocks,
                      DataType type);

  /// Returns after every rank has entered the barrier.
  void barrier();
  Work barrierAsync();

  /// Sends `count` elements to `peer`, which must receive them by recv() with the same count and
  /// type. Sends and receives between two ranks match in the order of the calls. Returns when the
  /// buffer may be changed, which may be before the peer has received it. `peer` may be this rank;
  /// then the send or the receive must be Async or in a Group. A count of zero is matched too.
  /// Errors: as for collectives; a different count or type is Error(mismatch) on all ranks.
  ///
  ///     std::int64_t token = comm.rank(), from_left = -1;
  ///     const int right = (comm.rank() + 1) % comm.size();
  ///     const int left = (comm.rank() + comm.size() - 1) % comm.size();
  ///     Group group; // starts both at once: no rank waits for a neighbour
  ///     comm.send(&token, 1, DataType::int64, right);
  ///     comm.recv(&from_left, 1, DataType::int64, left);
  ///     group.end();
  void send(const void* input, std::size_t count, DataType type, int peer);
  Work sendAsync(const void* input, std::size_t count, DataType type, int peer);
  /// Receives `count` elements into `output` that `peer` sends with send(). Order and errors
  /// as for send().
  void recv(void* output, std::size_t count, DataType type, int peer);
  Work recvAsync(void* output, std::size_t count, DataType type, int peer);
  /// Returns true if a message from `peer`'s send() has arrived, or begun to arrive, for which no
  /// recv() was called yet. Never waits. Use it to receive from whichever rank sends first. Errors:
  /// as for recv(), but other calls go on if `peer` has left; Error(unsupported) on devices.
  bool arrived(int peer);

  /// Whether a trace of this rank is written (Options::trace_folder).
  bool tracing() const;
  /// Adds a span to this rank's trace, on the same time base as the calls. Without a trace it does
  /// nothing. The trace keeps at most some thousand spans per quarter of a second; it counts those
  /// that it leaves out. Any thread.
  void trace(const TraceSpan& span);

  /// Returns the name of the algorithm for blocks of `count` elements, with operator sum and root
  /// 0, e.g. "ring"; "sendrecv" for Send and Recv. With RONDO_PLANNER=measured the first call may
  /// change it. Throws Error(unsupported) if none can serve such a call.
  std::string algorithmFor(Collective collective, std::size_t count, DataType type) const;
  /// Returns the algorithms that could serve a call, with their predicted times, and why this one
  /// is used; for a v-form and on devices, no candidates. Buffers do not matter; nothing is sent.
  /// Takes milliseconds for large calls. Throws Error(invalid_argument) for a Send or Recv, and for
  /// a count, type, operator or root that the call would refuse; Error(unsupported) if no algorithm
  /// can serve the call; Error(data) if Options::profile cannot be read.
  Explanation explain(const CollectiveCall& call) const;
  /// Returns the memory in use now. It grows when a call needs channels or scratch memory that no
  /// earlier call needed; repeating a call does not make it grow.
  MemoryUse memory() const;
  /// Returns where a rank ran when the communicator was made; valid as long as the communicator.
  /// Throws Error(invalid_argument) if `rank` is not a rank of it.
  const Place& placeOf(int rank) const;
  /// Returns the name of the transport to a peer: "inproc", "shm", "ucx" or "tcp"; between devices
  /// "nvlink", "pcie", "ucx" or "tcp"; "self" for this rank. Throws Error(invalid_argument) if
  /// `peer` is not a rank of the communicator.
  std::string transportTo(int peer) const;

 private:
  friend struct detail::Shims;
  explicit Communicator(std::shared_ptr<comm::CommunicatorImpl> impl);
  std::shared_ptr<comm::CommunicatorImpl> impl_;
};

} // namespace rondo
