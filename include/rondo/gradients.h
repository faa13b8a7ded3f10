// Averages gradients over the ranks in buckets, while the backward pass computes more of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "rondo/export.h"
#include "rondo/types.h"

namespace rondo {

/// A tensor of the model in the program's memory: values and gradient are dense and in host memory,
/// so use communicators without Options::device. For a GradientReducer, its name must not be empty,
/// no two parameters may have the same name, and the type must be a floating-point type.
struct Parameter {
  std::string name;                  ///< for error texts
  void* value = nullptr;             ///< its elements
  std::vector<std::size_t> shape;    ///< the number of elements is the product
  DataType type = DataType::float32; ///< of the elements and of their gradients
  void* gradient = nullptr;          ///< count() elements; null: the reducer allocates them

  RONDO_API std::size_t count() const;
  std::size_t bytes() const { return count() * sizeOf(type); }
};

/// Gives every rank's parameters the values of rank `root`; collective. It is for initial values,
/// and for tensors without gradients (running statistics). All ranks must list the same tensors in
/// the same order. Otherwise every rank throws Error(mismatch), which names the first tensor that
/// differs and two ranks; the communicator stays usable. Any element type is allowed, and
/// Parameter::gradient is not used. Other errors are those of broadcast(). In an open Group, whose
/// calls have no results yet: Error(invalid_argument).
RONDO_API void broadcastParameters(Communicator& comm, std::span<const Parameter> parameters,
                                   int root = 0);

/// Gradients that one call reduces, and where they are.
struct GradientBucket {
  std::size_t index = 0;             ///< its place in the order in which buckets start
  DataType type = DataType::float32; ///< of all its elements
  std::size_t count = 0;             ///< elements
  void* data = nullptr;              ///< the elements: input and, at the end, result
  /// Numbers of the parameters, in the order of their places in the bucket.
  std::vector<std::size_t> parameters;
  std::vector<std::size_t> offsets;             ///< where each parameter begins, in elements
  std::vector<std::vector<std::size_t>> shapes; ///< of each parameter
  /// A hook must multiply every rank's contribution by it: 1 / ranks for an average.
  double factor = 1;
};

/// An array that a hook keeps from step to step. Each rank has its own.
struct GradientHookArray {
  std::string name;
  std::span<float> values;
};

/// How gradients of all ranks are combined. Every rank calls the same functions for the same
/// buckets in the same order, on the thread that calls GradientReducer. A hook keeps residuals
/// by bucket index. If the buckets are formed again after the first step, what it kept is dropped.
class RONDO_API GradientHook {
 public:
  virtual ~GradientHook();
  /// For errors and reports; compared between ranks.
  virtual std::string name() const = 0;
  /// Whether it takes buckets of this type. Called when the reducer is constructed.
  virtual bool supports(DataType type) const = 0;
  /// Starts the part that runs while the backward pass continues.
  virtual Work start(Communicator& comm, GradientBucket& bucket) = 0;
  /// Called when that part is complete and all buckets have started. Writes the result to
  /// bucket.data. May call collectives.
  virtual void finish(Communicator& comm, GradientBucket& bucket) = 0;
  /// Bytes that this rank passed to the collectives of the bucket's last step, for reports. Called
  /// after finish(). The default is the size of the bucket.
  virtual std::uint64_t bytes(const GradientBucket& bucket) const;
  /// Whether every rank receives the contributions of all others instead of a sum. If so, N
  /// ranks together send N (N - 1) bytes() in a step, otherwise 2 (N - 1) bytes().
  virtual bool gathers() const { return false; }
  /// All arrays that it keeps for these buckets (GradientReducer::buckets()); creates those that do
  /// not exist yet. A checkpoint saves their values, and a resumed run writes them back. Valid
  /// until the next start(). Empty: it keeps nothing.
  virtual std::vector<GradientHookArray> state(std::span<const GradientBucket> buckets);
};

/// Converts float32 gradients of one rank to a message of fewer bytes, and back. Hooks send such
/// messages by collectives; parameter servers send them directly. Not thread-safe.
class RONDO_API GradientCodec {
 public:
  virtual ~GradientCodec();
  /// Size of the message for this many gradients.
  virtual std::size_t bytes(std::size_t count) const = 0;
  /// Whether messages leave gradients out, which then count as 0.
  virtual bool sparse() const = 0;
  /// Writes the message of gradients * factor: bytes(gradients.size()) bytes, aligned to 4. A
  /// sparse codec first adds `kept`, an array of the same size, and stores in it what the message
  /// leaves out: sent + kept = gradients * factor + kept before, bit for bit. Other codecs ignore
  /// `kept`.
  virtual void encode(std::span<const float> gradients, float factor, std::span<float> kept,
                      void* message) = 0;
  /// Writes as many gradients as were encoded.
  virtual void decode(const void* message, std::span<float> gradients) const = 0;
};

/// Codec for float16 or bfloat16, rounded to nearest even. Error(invalid_argument) for other types.
RONDO_API std::unique_ptr<GradientCodec> narrowCodec(DataType type);
/// Sends only the share `density` of the gradients that are largest in magnitude, as pairs of index
/// and value. Error(invalid_argument) unless density is in (0, 1].
RONDO_API std::unique_ptr<GradientCodec> topKCodec(double density);

/// Sends float32 gradients as `type` (float16 or bfloat16), which halves the bytes. They are
/// multiplied by the factor before they are rounded to nearest even. Error(invalid_argument) for
/// other types.
RONDO_API std::unique_ptr<GradientHook> compressGradients(DataType type);
/// Sends the share `density` (in (0, 1]) of each bucket's elements that are largest in magnitude,
/// and keeps the rest for the next step: sent + kept = gradient + kept before, bit for bit.
/// Contributions are added in rank order. Only for float32. Error(invalid_argument) unless density
/// is in (0, 1]. (Lin et al., Deep Gradient Compression, 2018, without its momentum correction.)
RONDO_API std::unique_ptr<GradientHook> topKGradients(double density);
/// Sends each matrix as a product of two matrices with `rank` columns, with error feedback and a
/// warm start. Parameters that are no matrices, or would not become smaller, are sent whole. The
/// first `exact_steps` steps are plain averages. Only for float32. Error(invalid_argument) if
/// `rank` is below 1 or `exact_steps` below 0. (Vogels, Karimireddy, Jaggi, PowerSGD, 2019.)
RONDO_API std::unique_ptr<GradientHook> powerSgdGradients(int rank, int exact_steps = 1);

struct GradientOptions {
  /// A bucket is full when it holds at least this many bytes. The first entry is for the first
  /// bucket of each type, and so on; the last entry is for all others. Parameters are never split.
  /// {0}: one bucket per parameter.
  std::vector<std::size_t> bucket_bytes = {std::size_t{1} << 20, std::size_t{25} << 20};
  /// Averages over the ranks; otherwise sums.
  bool average = true;
  /// Starts each bucket as soon as it is full; otherwise wait() starts all of them.
  bool overlap = true;
  /// Forms the buckets again after the first step, in the order in which rank 0's gradients became
  /// ready; with find_unused only if static_graph is set too, as in PyTorch.
  bool follow_observed_order = true;
  /// Allows parameters without a gradient in a step. Those that are not ready at wait() count as
  /// zeros. A gradient that no rank has keeps its old value.
  bool find_unused = false;
  /// Promises that all steps are like the first: the first step shows which parameters are unused,
  /// and how often each becomes ready. Buckets with unused parameters can then overlap too.
  bool static_graph = false;
  /// Ranks may have different numbers of steps: see GradientReducer::shadow(). Costs a small
  /// all-reduce per step. Not with static_graph.
  bool uneven_inputs = false;
  /// How gradients are sent. Null: an all-reduce of the bucket.
  std::shared_ptr<GradientHook> hook = nullptr;
};

/// Where the time of steps went, in seconds, summed over all steps. The reducer notices the end of
/// a bucket's communication only inside one of its functions, so times are as exact as these calls
/// are frequent.
struct GradientStatistics {
  std::uint64_t steps = 0;  ///< steps that were reduced
  double forward = 0;       ///< from begin() to the first ready()
  double backward = 0;      ///< from there to wait()
  double communication = 0; ///< while at least one bucket was in flight
  double overlap = 0;       ///< the part of `communication` before wait()
  double exposed = 0;       ///< time in wait()
  std::uint64_t bytes = 0;  ///< of the buckets, as the hook sends them
};

/// When a bucket of the last step was in flight, in seconds since begin() of that step. The end is
/// as exact as in GradientStatistics.
struct GradientBucketTimes {
  std::size_t bucket = 0;
  double begin = 0, end = 0;
  std::uint64_t bytes = 0; ///< as the hook sends it
};

/// Averages gradients over the ranks during the backward pass (Li et al., PyTorch Distributed:
/// Experiences on Accelerating Data Parallel Training, 2020).
///
///   rondo::GradientReducer reducer(comm, parameters);
///   for (...) {
///     reducer.begin();
///     ... forward; backward: each parameter's gradient is written to reducer.gradient(i), then
///     reducer.ready(i);
///     reducer.wait();
///     ... optimizer
///   }
///
/// Order. A bucket holds gradients of one type. Buckets are filled with the parameters in reverse
/// order, since a backward pass computes the gradients of the last ones first; after the first
/// step, in the order that was observed. Buckets start in this order on all ranks, whatever the
/// order in which they become full.
///
/// Errors. A rank that uses the reducer wrongly aborts the communicators, so that no other rank
/// waits for it. That rank gets Error(invalid_argument), which names the parameter or the call; all
/// others get Error(aborted) with the same text. This applies to invalid options and parameters, to
/// calls in the wrong order, and to calls while the thread has an open Group; gradient() with a
/// wrong number only throws. If a step is left before the end of wait() or shadow(), for example by
/// an exception, the destructor of the reducer aborts the communicators.
///
/// Not thread-safe. The communicators must outlive the reducer, and nothing else may use them
/// between begin() and wait().
class RONDO_API GradientReducer {
 public:
  /// Collective. Compares the options of all ranks (except `overlap`; of the hook only the name)
  /// and their models (names, types, shapes, order), and gives every rank the values of rank 0. If
  /// they differ, every rank throws Error(mismatch), which names the first difference and two
  /// ranks; the communicators stay usable. Error(invalid_argument) for invalid options or
  /// parameters, and Error(unsupported) for a type that the hook does not take, abort the
  /// communicators.
  GradientReducer(Communicator& comm, std::vector<Parameter> parameters,
                  const GradientOptions& options = {});
  /// Uses several communicators: bucket i uses communicator i modulo their number. All must have
  /// the same ranks in the same order.
  GradientReducer(std::vector<Communicator*> communicators, std::vector<Parameter> parameters,
                  const GradientOptions& options = {});
  /// If a step was left, aborts the communicators, and returns when nothing of the step is in
  /// flight.
  ~GradientReducer();
  GradientReducer(GradientReducer&&) noexcept;
  GradientReducer& operator=(GradientReducer&&) noexcept;

  /// Where the caller writes the parameter's gradient, and finds the result. If Parameter::gradient
  /// is null, this is memory of the reducer (zero at first), a part of the bucket, so nothing is
  /// copied. begin() or shadow() of the second step with `synchronize` moves it, with its contents.
  void* gradient(std::size_t parameter) const;

  /// Begins a step. It sets no gradient to zero. With `synchronize` it may wait for the other
  /// ranks: always with GradientOptions::uneven_inputs, and once when the buckets are formed again,
  /// after the first step. Without `synchronize` the step's ready() and wait() communicate nothing:
  /// the caller accumulates its gradients, which count as part of the next step with `synchronize`.
  void begin(bool synchronize = true);
  /// Reports that the backward pass has written this gradient. Call it once for each parameter and
  /// step, or, with GradientOptions::static_graph, as often as in the first step. A call too many
  /// in a step with `synchronize` is Error(invalid_argument). After the parameter's last call, do
  /// not touch the gradient until wait() has returned. With GradientOptions::overlap it starts the
  /// buckets that are complete, and does not wait for them.
  void ready(std::size_t parameter);
  /// Ends the step: returns when all gradients are averages over the ranks, or sums without
  /// GradientOptions::average.
  void wait();

  /// For a rank without further steps, with GradientOptions::uneven_inputs: takes part with zeros
  /// in one step of the ranks that have one. After it this rank's gradients are the same averages
  /// over those ranks; the caller applies them as always, and so keeps the same model. Returns
  /// false if no rank has a step left.
  ///   while (reducer.shadow()) optimizer.step();
  bool shadow();

  /// The present buckets; they are formed again after the first step. `data` and `factor` are not
  /// set.
  std::vector<GradientBucket> buckets() const;
  GradientStatistics statistics() const;
  /// Of the last step that was reduced, in the order in which the buckets started.
  std::vector<GradientBucketTimes> timeline() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace rondo
