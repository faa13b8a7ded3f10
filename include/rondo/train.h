// Trains image classifiers on the ranks of a communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "rondo/export.h"
#include "rondo/train_options.h"

namespace rondo {

/// Where the time of a step went on this rank, in milliseconds.
struct TrainTimes {
  /// The whole step, including time that no other member counts.
  double step = 0;
  double data = 0; ///< waiting for samples
  double forward = 0;
  /// Includes starting and progressing the communication that overlaps it.
  double backward = 0;
  /// Exposed communication: after the backward pass, and the sums of strategy "tensor" during the
  /// passes.
  double communication = 0;
  double optimizer = 0;
};

/// Progress of a run, passed to the callback of every rank after each step.
struct TrainProgress {
  int epoch, epochs, step, steps; ///< epoch and step are counted from 1
  /// Mean over the step's samples of all ranks. With strategy "local" it is this rank's mean,
  /// except in steps after which all ranks exchange their losses.
  double loss;
  /// Of all ranks, since the epoch began or was resumed.
  double samples_per_second;
  double test_accuracy = -1; ///< in [0, 1] after the last step of an epoch or of the run, else -1
  /// Set with the test accuracy: mean over the samples of all ranks in the epoch's steps so far.
  double epoch_loss = 0;
  std::int64_t total_step = 0; ///< over all epochs, counted from 1
  double learning_rate = 0;    ///< of this step
  TrainTimes times = {};
  int ranks = 0; ///< that made this step
  /// In the first step after a rank was lost with its shard: where that came from (a copy, a
  /// checkpoint, the beginning). Empty otherwise.
  std::string recovery = {};
};

/// How a pipeline spent its time. The idle values are shares of the time of all ranks' steps.
struct TrainPipeline {
  /// Layers begin to end - 1 of the model, and the milliseconds that one micro-batch took in its
  /// forward and backward pass: means over all steps except the first two.
  struct Part {
    std::size_t begin = 0, end = 0;
    double forward = 0, backward = 0;
  };
  /// Part i is on stage i modulo the number of stages; empty: the run had no pipeline.
  std::vector<Part> parts;
  /// Closed form, for parts of equal cost and messages that take no time.
  double idle_even = 0;
  /// Simulated with the measured cost of each part, and messages that take no time.
  double idle_predicted = 0;
  /// Measured from the first pass of a step until all ranks have the loss.
  double idle_measured = 0;
};

struct TrainReport {
  double test_accuracy = 0;           ///< over all test samples, in [0, 1]
  std::vector<double> epoch_loss;     ///< mean training loss of each complete epoch
  std::vector<double> epoch_accuracy; ///< test accuracy after each of them
  /// The gradient noise scale of each epoch of this call, in samples. Averaging over a batch much
  /// smaller than it wastes almost nothing; enlarging a batch that is much larger gains almost
  /// nothing (McCandlish et al., An Empirical Model of Large-Batch Training, 2018). Empty without
  /// TrainOptions::Gradients::noise_scale; not finite if the gradients are only noise.
  std::vector<double> epoch_noise_scale;
  std::uint64_t parameter_hash = 0; ///< of all parameters, equal on all ranks
  /// Steps of the whole training, including those before it was resumed.
  std::int64_t steps = 0;
  bool stopped = false;          ///< TrainOptions::stop ended the run
  TrainTimes times;              ///< medians over the steps of this call
  double samples_per_second = 0; ///< of all ranks, in the steps of this call
  /// Bytes that all ranks together must send in one step, by the strategy's formula, without
  /// headers.
  double bytes_per_step = 0;
  /// Most bytes of parameters, gradients and optimizer state that were allocated at any time on the
  /// rank with the most; 0: the strategy does not count them.
  std::uint64_t held_bytes = 0;
  TrainPipeline pipeline;
  /// ps: entry i counts how often a worker read values in which i steps of another worker were
  /// missing, compared with its own steps.
  std::vector<std::uint64_t> staleness;
  /// ps: share of the values that servers' answers contained. It is below 1 if pushes leave
  /// gradients out (hook "topk"), since then not all values change.
  double pulled = 1;
  /// Share of the step time in which ranks waited for others, by TrainTimes::communication; mean
  /// over the ranks that compute.
  double idle = 0;
  double seconds = 0; ///< duration of train() on this rank, including reading the data
};

/// Trains a model; collective. With strategy "ddp" each rank trains on its share of every step's
/// samples, and a GradientReducer sums the gradients during the backward pass (BSP). `rondo train
/// --help` describes the other strategies in a line each, and the head of a strategy's file says
/// how it differs from the text below. After each epoch the ranks evaluate the test set together.
/// Every rank returns the same report, except for its times.
///
/// Data. Every rank reads its own copy of all data before the first step. TrainOptions::remainder
/// says what happens to samples that do not fill an epoch's last step. With "uneven" each sample is
/// used once in an epoch: the gradient of a step is the mean over the samples that exist, so a
/// micro-batch counts in proportion to its size, both in the gradient and in running statistics.
/// (PyTorch's Join divides by the number of all ranks, which gives samples of an incomplete step
/// too little weight, or by the ranks that have data left, which gives the samples of a small share
/// too much.)
///
/// Order. The samples of a step depend only on (seed, epoch). They are split into size() *
/// accumulate micro-batches. Rank r takes micro-batches r * accumulate to (r+1) * accumulate - 1,
/// so N ranks with A micro-batches each see the same ones as 1 rank with N*A. Gradients and batch
/// norm's running statistics are summed over micro-batches from left to right, then over ranks, and
/// scaled last. Therefore, with Options::deterministic, N ranks with accumulate 1 compute the same
/// bits as 1 rank with accumulate N, for every N. Other splits (2 ranks with 2 micro-batches,
/// compared with 1 rank with 4) differ by rounding. In deterministic mode bucket_bytes and overlap
/// change no bit. All of this holds without a hook and without sync_batch_norm. With
/// sync_batch_norm the split changes only rounding.
///
/// Checkpoints contain everything that the next step depends on: a resumed run ends with the same
/// bytes as one that was not interrupted. Only rank 0 reads and writes the file. A run can be
/// resumed on another number of ranks if the batch can be split among them, and under another
/// strategy, but not with a hook that keeps residuals per rank. If it leaves or enters strategy
/// local, or changes the ranks of local, or switches its slow momentum on or off, it goes on from
/// the mean of the models and of the optimizers' states, and slow momentum begins anew. Model,
/// data, batch, seed, remainder, augment, optimizer and hook must be those of the file; with a hook
/// also bucket_bytes; for ps without bsp also the kind of consistency and the number of workers.
/// All other options may change.
///
/// Elastic runs (TrainOptions::elastic). If a rank dies, the others shrink, divide the samples of
/// each further step among themselves, and go on. ddp: from the state of the rank with the most
/// steps; local: from the mean of the models; sharded strategies: from the survivors' shards and
/// the in-memory copy of the lost shard. So at most the step in flight is repeated. If a shard is
/// lost, because it has no copy or two neighbours died, all return to the last checkpoint that this
/// run wrote, or the one it was resumed from, or to the beginning if `checkpoint` is set and there
/// is none yet; TrainProgress::recovery says so. Without `checkpoint` the run then ends with
/// Error(peer_dead). Residuals of hooks are reset to zero. New ranks join at the end of a step and
/// get their part of parameters and optimizer state, and the number of the next step. `comm` is
/// replaced by the communicator of the present ranks; the rank number may become lower, and the
/// lowest rank writes the files. Times in the report are those since the last change of ranks, and
/// the HTML page (TrainOptions::Files::report) shows only steps that the present lowest rank has
/// recorded. A rank with an error of its own leaves, like one that dies; so does a new rank whose
/// options or data are not those of the run. If fewer ranks are left than MIN of
/// TrainOptions::Elastic::ranks ("MIN:MAX"), and too few join in time, the run ends with
/// Error(peer_dead), which names the checkpoint that it has written, if `checkpoint` is set.
///
/// Threads: layers of a rank run on one thread, or on OMP_NUM_THREADS threads.
///
/// Errors, the same on every rank: `data` for a missing, damaged or foreign file, which the text
/// names; `invalid_argument`; `mismatch` if options, data or parameters differ between ranks;
/// `aborted` for a loss or parameters that are not finite (the text names step and layer); `system`
/// for a file that cannot be written (an existing checkpoint is kept; if this is known before the
/// first step, the run is refused with the name of the option); `unsupported` where oneDNN cannot
/// be loaded, and for a precision that the processor does not support. If a rank dies, the others
/// get `peer_dead`.
RONDO_API TrainReport train(Communicator& comm, const TrainOptions& options,
                            const std::function<void(const TrainProgress&)>& progress = {});

/// Joins a run with TrainOptions::elastic, whose rendezvous file this is: waits at most for
/// Options::init_timeout until the ranks that train let this one in, at the end of a step. The
/// result is for train() with the options of the run and elastic.joined. Throws Error(init_failed)
/// with the last reason, if the file has no id by then or no rank lets this one in;
/// Error(data) if other users can read the file.
RONDO_API Communicator joinTraining(const std::string& rendezvous_file, const Options& options);

/// Describes, for people, what each rank computes, sends and receives in one step of the strategy,
/// in order. Not collective. Throws what train() throws, and Error(unsupported) for a strategy that
/// has no such plan.
RONDO_API std::string trainSchedule(const TrainOptions& options, int ranks);
/// Throws what train() throws for options that are wrong, that conflict, or that the strategy
/// cannot use on so many ranks. Reads no data. Not collective.
RONDO_API void requireTrainOptions(const TrainOptions& options, int ranks);
/// Reads the data of a run with these options. Throws what train() would throw for data that are
/// missing or too few. Not collective.
RONDO_API void requireTrainData(const TrainOptions& options);
/// Checks whether layers can run on this device (TrainOptions::device) in this precision
/// (TrainOptions::precision). Throws Error(invalid_argument) for an unknown device or precision,
/// and Error(unsupported), which says what is missing, if they cannot: "cuda" computes in float32
/// only; a processor may have no instructions for a precision.
RONDO_API void requireTrainDevice(const std::string& device, const std::string& precision);

/// One of several runs that differ in some settings only.
struct TrainSweepRun {
  std::string name;     ///< unique in the sweep
  std::string settings; ///< how it differs from the other runs, for people
  int ranks = 1;
  /// After each epoch: seconds of training so far, and the test accuracy.
  std::vector<double> seconds = {}, accuracy = {};
  std::vector<double> noise_scale = {}; ///< TrainReport::epoch_noise_scale
  /// Why it ended early, for example a loss that is not finite; "": it did not.
  std::string ended = {};
};
/// Writes an HTML page that compares the runs: accuracy by epoch and by time, and the noise scale.
/// `summary` is a line for people under the title; "": none. Throws Error(system) if the file
/// cannot be written.
RONDO_API void writeTrainSweep(const std::string& path, const std::string& title,
                               const std::vector<TrainSweepRun>& runs,
                               const std::string& summary = {});

RONDO_API std::vector<TrainChoice> trainModels();
/// Kinds of samples; each summary says what TrainOptions::data must be.
RONDO_API std::vector<TrainChoice> trainData();
RONDO_API std::vector<TrainChoice> trainPrecisions();
RONDO_API std::vector<TrainChoice> trainStrategies();
RONDO_API std::vector<TrainChoice> trainPipelines();
RONDO_API std::vector<TrainChoice> trainOptimizers();
RONDO_API std::vector<TrainChoice> trainSchedules();
RONDO_API std::vector<TrainChoice> trainScalings();
/// In a name such as "topk:DENSITY" the part after the colon is a value that the caller must give.
RONDO_API std::vector<TrainChoice> trainHooks();

} // namespace rondo
