// Gradient bucketing: what stands between a model's backward pass and the collectives.
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

/// A tensor of the model, as the program holds it: dense, in host memory.
struct Parameter {
  std::string name;                  ///< what errors call it
  void* value = nullptr;             ///< its elements
  std::vector<std::size_t> shape;    ///< the product is the number of its elements
  DataType type = DataType::float32; ///< of the elements and of their gradients
  void* gradient = nullptr;          ///< as many elements; null: the reducer has the memory

  RONDO_API std::size_t count() const;
  std::size_t bytes() const { return count() * sizeOf(type); }
};

/// Collective. Every rank's parameters get the values of rank `root`: at the start, and for buffers
/// that are no parameters (running statistics). All ranks name the same tensors in the same order,
/// else Error(mismatch) on every rank that names the first tensor that differs, and the ranks.
RONDO_API void broadcastParameters(Communicator& comm, std::span<const Parameter> parameters,
                                   int root = 0);

/// Parameters whose gradients travel together, and where.
struct GradientBucket {
  std::size_t index = 0;               ///< its place in the order of launching
  DataType type = DataType::float32;   ///< of all its elements
  std::size_t count = 0;               ///< elements
  void* data = nullptr;                ///< the elements: input and, in the end, result
  std::vector<std::size_t> parameters; ///< numbers, in the order in which they lie in the bucket
  std::vector<std::size_t> offsets;    ///< of each of them, in elements
  std::vector<std::vector<std::size_t>> shapes; ///< of each of them
  double factor = 1; ///< by which every rank's contribution counts: 1 / ranks for an average
};

/// An array that a hook keeps from step to step; each rank has its own.
struct GradientHookArray {
  std::string name;
  std::span<float> values;
};

/// How the ranks' gradients become one. Every rank calls the same functions for the same buckets in
/// the same order, on the thread that calls GradientReducer. State (residuals) is kept by the index
/// of the bucket, and lost when buckets are formed anew after the first step.
class RONDO_API GradientHook {
 public:
  virtual ~GradientHook();
  /// For errors and reports.
  virtual std::string name() const = 0;
  /// Whether it takes buckets of this type; asked when the reducer is made.
  virtual bool supports(DataType type) const = 0;
  /// Starts what can run while the backward pass goes on.
  virtual Work start(Communicator& comm, GradientBucket& bucket) = 0;
  /// Called when that is done, after all buckets have started; puts the result into bucket.data.
  /// May call collectives.
  virtual void finish(Communicator& comm, GradientBucket& bucket) = 0;
  /// What this rank gave to the collectives of the bucket's last step, asked after finish(); for
  /// reports. The bucket's size if a hook does not say.
  virtual std::uint64_t bytes(const GradientBucket& bucket) const;
  /// Whether every rank gets what each of the others gave, in place of a sum: then N ranks send
  /// N (N - 1) times bytes(), else 2 (N - 1) times.
  virtual bool gathers() const { return false; }
  /// All that it keeps for these buckets (GradientReducer::buckets()), made where there is nothing
  /// yet: a checkpoint saves what stands there, and a run that goes on from it writes that back.
  /// Valid until the next start(). Empty: it keeps nothing.
  virtual std::vector<GradientHookArray> state(std::span<const GradientBucket> buckets);
};

/// How float32 gradients of one rank become a message of fewer bytes, and gradients again: what
/// hooks send by collectives, and what others may send as they like, as parameter servers do. One
/// thread at a time.
class RONDO_API GradientCodec {
 public:
  virtual ~GradientCodec();
  /// Of the message of so many gradients.
  virtual std::size_t bytes(std::size_t count) const = 0;
  /// Whether messages leave gradients out, which then count as 0.
  virtual bool sparse() const = 0;
  /// Writes the message, of bytes(gradients.size()) bytes aligned to 4, of the gradients times the
  /// factor. A sparse one adds `kept`, of as many elements, first, and leaves there what it does
  /// not send: sent + kept = gradients + kept before, bit for bit. Others do not use it.
  virtual void encode(std::span<const float> gradients, float factor, std::span<float> kept,
                      void* message) = 0;
  /// As many gradients as were encoded.
  virtual void decode(const void* message, std::span<float> gradients) const = 0;
};

/// float16 or bfloat16, rounded to nearest even. Error(invalid_argument) for other types.
RONDO_API std::unique_ptr<GradientCodec> narrowCodec(DataType type);
/// The `density` (in (0, 1], else Error(invalid_argument)) of the gradients that are largest in
/// magnitude, as pairs of index and value.
RONDO_API std::unique_ptr<GradientCodec> topKCodec(double density);

/// Sends float32 gradients as `type` (float16 or bfloat16), multiplied by the factor before they
/// are rounded to nearest even; half the bytes.
RONDO_API std::unique_ptr<GradientHook> compressGradients(DataType type);
/// Sends the `density` (in (0, 1]) of the elements of each bucket that are largest in magnitude,
/// and keeps the rest for the next step: sent + kept = gradient + kept before, bit for bit.
/// Contributions are added in rank order. float32. (Lin et al., Deep Gradient Compression, 2018,
/// without its momentum correction.)
RONDO_API std::unique_ptr<GradientHook> topKGradients(double density);
/// Sends matrices as a product of two of `rank` columns, with error feedback and a warm start; what
/// is no matrix, or would not be smaller, is sent whole. The first `exact_steps` steps are plain
/// averages. float32. (Vogels, Karimireddy, Jaggi, PowerSGD, 2019.)
RONDO_API std::unique_ptr<GradientHook> powerSgdGradients(int rank, int exact_steps = 1);

struct GradientOptions {
  /// A bucket is closed when it holds so many bytes or more: the first bucket, the second, and so
  /// on; the last entry serves all others. Parameters are never split. {0}: one bucket a parameter.
  std::vector<std::size_t> bucket_bytes = {std::size_t{1} << 20, std::size_t{25} << 20};
  /// Averages over the ranks; else sums.
  bool average = true;
  /// Starts each bucket as soon as it is full; else all of them in wait().
  bool overlap = true;
  /// Forms the buckets anew after the first step, in the order in which rank 0's gradients came.
  bool follow_observed_order = true;
  /// Some parameters get no gradient in some steps: those that are not ready in wait() count as
  /// zeros, and where no rank has one the gradient stays as it was.
  bool find_unused = false;
  /// All steps are like the first: which parameters are unused, and how often each is made ready,
  /// is learned there. Buckets with unused parameters then overlap too.
  bool static_graph = false;
  /// Ranks may have different numbers of steps: see GradientReducer::shadow(). Costs a small
  /// all-reduce a step. Not with static_graph.
  bool uneven_inputs = false;
  /// Null: an all-reduce.
  std::shared_ptr<GradientHook> hook = nullptr;
};

/// Where the time of steps went, in seconds, summed over them. What a bucket's communication took
/// is seen when one of the reducer's functions looks, so it is known as finely as those are called.
struct GradientStatistics {
  std::uint64_t steps = 0;  ///< that were reduced
  double forward = 0;       ///< from begin() to the first ready()
  double backward = 0;      ///< from there to wait()
  double communication = 0; ///< while at least one bucket was on its way
  double overlap = 0;       ///< part of it that lies before wait()
  double exposed = 0;       ///< in wait()
  std::uint64_t bytes = 0;  ///< of the buckets, as the hook sends them
};

/// When a bucket of the last step was on its way, in seconds since that step's begin(); its end as
/// GradientStatistics knows it.
struct GradientBucketTimes {
  std::size_t bucket = 0;
  double begin = 0, end = 0;
  std::uint64_t bytes = 0; ///< as the hook sends it
};

/// Averages gradients over the ranks while the backward pass goes on (Li et al., PyTorch
/// Distributed: Experiences on Accelerating Data Parallel Training, 2020).
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
/// Buckets hold gradients of one type. Parameters are put into them in reverse order, since a
/// backward pass comes to the last ones first; after the first step in the order that was seen.
/// They start in this order on all ranks, whatever the order in which they become full.
///
/// Errors. What one rank alone does wrong ends the communicators, so that nobody waits for it: it
/// gets Error(invalid_argument) that names the parameter or the call, all others Error(aborted)
/// with the same text. So do options and parameters that make no sense, and calls out of turn; only
/// gradient() with a wrong number is refused without that. A step that is left before wait() has
/// ended it, as by an exception, ends them too, as soon as the reducer ends.
///
/// One thread at a time. The communicators must live as long, and be used by nobody else between
/// begin() and wait().
class RONDO_API GradientReducer {
 public:
  /// Collective. Compares the options of all ranks (but for `overlap`, and of the hook its name)
  /// and their models (names, types, shapes, order), and gives every rank the values of rank 0.
  /// Throws Error(mismatch) on every rank that names the first option or parameter that differs and
  /// two ranks, and leaves the communicators usable; Error(invalid_argument) for options or
  /// parameters that make no sense, Error(unsupported) for a type that the hook cannot take, after
  /// which they are not.
  GradientReducer(Communicator& comm, std::vector<Parameter> parameters,
                  const GradientOptions& options = {});
  /// Bucket i goes over communicator i modulo their number: they are the same ranks in the same
  /// order.
  GradientReducer(std::vector<Communicator*> communicators, std::vector<Parameter> parameters,
                  const GradientOptions& options = {});
  /// Where a step was left it aborts the communicators, and returns when nothing of the step is on
  /// its way.
  ~GradientReducer();
  GradientReducer(GradientReducer&&) noexcept;
  GradientReducer& operator=(GradientReducer&&) noexcept;

  /// Where the parameter's gradient is to be written, and stands in the end. Memory of the reducer
  /// (zero at first) where Parameter::gradient is null: a part of its bucket, so nothing is copied.
  /// begin() of the second step moves it, with its contents.
  void* gradient(std::size_t parameter) const;

  /// Begins a step. Without `synchronize` its gradients only count as accumulated, for the next
  /// step with it: ready() and wait() then communicate nothing.
  void begin(bool synchronize = true);
  /// The gradient is complete: the backward pass has written it. Starts what can start.
  void ready(std::size_t parameter);
  /// Ends the step: returns when all gradients are averages over the ranks.
  void wait();

  /// With GradientOptions::uneven_inputs, for a rank that has no more steps: takes part in one step
  /// of those that have, with zeros, after which the gradients are the same averages over those
  /// ranks; the caller applies them as always and so keeps the same model. False: no rank has a
  /// step left.
  ///   while (reducer.shadow()) optimizer.step();
  bool shadow();

  /// As they are now; after the first step they are formed anew. `data` and `factor` are not set.
  std::vector<GradientBucket> buckets() const;
  GradientStatistics statistics() const;
  /// Of the last step that was reduced, in order of launching.
  std::vector<GradientBucketTimes> timeline() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace rondo
