// Training of image classifiers on the ranks of any communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "rondo/export.h"

namespace rondo {

/// Where Debian's dataset-fashion-mnist puts the files, or $RONDO_DATA if set.
RONDO_API std::string defaultDataFolder();

/// A rank whose steps compute `factor` times as long, for good.
struct TrainSlowRank {
  int rank = 0;
  double factor = 1; ///< 1 or more
  bool operator==(const TrainSlowRank&) const = default;
};

/// Any rank's step computes `factor` times as long with this probability, by TrainOptions::seed.
struct TrainJitter {
  double probability = 0; ///< in [0, 1]
  double factor = 1;      ///< 1 or more
};

/// Equal on all ranks, but for the names of the folder and the files, and `stop`: that there is a
/// checkpoint, a report or a trace is told alike by all, though rank 0 writes it.
struct TrainOptions {
  std::string model = "mlp"; ///< one of trainModels()
  /// A folder with Fashion-MNIST's or MNIST's *-ubyte files, or CIFAR-10's *.bin, as they are or
  /// compressed (.gz); "synthetic".
  std::string data = defaultDataFolder();
  /// As requireTrainDevice() takes it. With "cuda" a rank has the GPU that RONDO_DEVICE names;
  /// where that names none, the ranks of a machine take those that they see in turn. What ranks
  /// send is in host memory with either: the communicator's Options::device is -1.
  std::string device = "cpu";
  /// Of the numbers that layers multiply, as requireTrainPrecision() takes it. Weights, their
  /// gradients and what optimizers keep are floats in each, and what ranks send is as `hook` says
  /// (mixed precision: Micikevicius et al., 2018; bfloat16 needs no scaled loss).
  std::string precision = "float32";
  /// How the ranks train one model together; one of trainStrategies(). Not every strategy takes
  /// every option: one that is set though the strategy has no use for it is an error that names it.
  std::string strategy = "ddp";
  int servers = 1; ///< ps: the first ranks, which hold a range of the parameters each
  bool dedicated_servers = false; ///< ps: servers do not train
  /// ps: "bsp"; "ssp:S": no worker reads values that lack more than S steps of another, measured by
  /// its own; "asp": nobody waits for anybody.
  std::string consistency = "bsp";
  int period = 8;           ///< local: steps between two averages
  double slow_momentum = 0; ///< local: of the averages, in [0, 1)
  int epochs = 5;
  std::int64_t steps = 0; ///< ends after so many steps, wherever in an epoch; 0: after the epochs
  int batch = 128;        ///< samples of one step over all ranks and micro-batches
  /// Micro-batches per rank and step, summed locally; of a pipeline, those of a step.
  int accumulate = 1;
  /// What becomes of samples that do not fill an epoch's last step: "drop" leaves them out, "pad"
  /// fills the step up with the epoch's first ones, "uneven" (ddp) makes a smaller step of them.
  std::string remainder = "drop";
  std::uint64_t seed = 1;        ///< of the initial weights, the sampler, dropout and augmentation
  std::size_t limit_samples = 0; ///< use only the first training samples; 0: all
  bool augment = false;          ///< flips and crops training samples
  /// Batch norm takes the statistics of all ranks' samples, not of each rank's own: one more sum
  /// over the ranks for each such layer and direction.
  bool sync_batch_norm = false;

  std::string pipeline = "1f1b"; ///< order of the strategy "pipeline": one of trainPipelines()
  int laps = 2;                  ///< of "interleaved": parts of the model that a rank has
  /// A pipeline keeps inputs of its parts only, and makes activations again before the pass back.
  bool recompute = false;
  // Stragglers, injected to compare strategies: ranks sleep before their steps. Servers (ps) go on.
  double pace_ms = 0; ///< a rank's step computes at least so long: as if each rank had its own core
  std::vector<TrainSlowRank> slow;
  TrainJitter jitter;

  std::string optimizer = "sgd"; ///< one of trainOptimizers()
  double learning_rate = 0.02;
  /// The batch that learning_rate is for: it is scaled to `batch`, and the warm-up climbs from the
  /// unscaled one. 0: it is for this batch.
  int base_batch = 0;
  std::string scaling = "linear";    ///< with base_batch: one of trainScalings()
  double momentum = 0.9;             ///< of sgd and lars
  bool nesterov = false;             ///< sgd: looks one step of momentum ahead
  double weight_decay = 0;           ///< of matrices and filters
  double clip = 0;                   ///< limit of the norm of the whole gradient; 0: none
  std::string schedule = "constant"; ///< of the learning rate; one of trainSchedules()
  int warm_up = 0;                   ///< steps in which the learning rate climbs to its value

  /// As GradientOptions::bucket_bytes and ::overlap.
  std::vector<std::size_t> bucket_bytes = {std::size_t{1} << 20, std::size_t{25} << 20};
  bool overlap = true;
  /// Communicators that buckets take in turn, so that as many are on their way at once; 1 to 16.
  int groups = 1;
  /// fsdp: layers are collected to units of so many bytes of weights; 0: each layer is one.
  std::size_t unit_bytes = std::size_t{128} << 10;
  /// Which ranks are neighbours for what: "data=2,shard=2", the last axis turning fastest; "": all
  /// along the strategy's own axis.
  std::string mesh;
  /// Bytes of parameters, gradients and optimizer that a rank may hold at most; 0: any. A run that
  /// needs more is refused before it begins.
  std::uint64_t memory_limit = 0;
  /// Estimates the gradient noise scale on the way, from the gradients of single micro-batches and
  /// their mean: two passes over them in each step. ddp, of two or more micro-batches.
  bool noise_scale = false;
  /// How gradients travel: one of trainHooks(), with its value behind a colon where it has one.
  std::string hook = "none";
  /// After so many steps, after each epoch and at the end, the hash of all parameters is compared
  /// over the ranks, and they must be finite; 0: only at the end. It reads all parameters: each
  /// step it would cost a small model some percent.
  int verify_every = 50;

  std::string checkpoint;   ///< file; "": none. Rank 0 writes it, at the end too
  int checkpoint_every = 0; ///< steps; 0: only at the end, and when stopped
  bool resume = false;      ///< goes on from the checkpoint

  /// Files that rank 0 writes; "": none. `report` is a folder, in which index.html shows curves,
  /// where the time of steps went, and the buckets of one step; `trace` is for ui.perfetto.dev:
  /// what ten steps computed and communicated; `metrics` has a line of JSON for each step and
  /// epoch (of ps without bsp, for those steps that rank 0 finds done when it has done one of its
  /// own), and is gone on with by a run that is resumed.
  std::string report, trace, metrics;
  /// Asked on every rank in every step, by the thread that called train(): if any rank's says true,
  /// all end behind this step. Null: never.
  std::function<bool()> stop;
};

/// Where the time of a step went on this rank, in milliseconds.
struct TrainTimes {
  double step = 0; ///< all of it, with what is not named here
  double data = 0; ///< waiting for samples
  double forward = 0;
  double backward = 0; ///< with starting and moving what is sent meanwhile
  /// Exposed: behind the backward pass, and in a tensor strategy's sums amid the passes.
  double communication = 0;
  double optimizer = 0;
};

/// Sent to the progress callback of every rank after each step.
struct TrainProgress {
  int epoch, epochs, step, steps; ///< the first epoch and step are 1
  double loss;                    ///< mean over the step's samples, all ranks
  double samples_per_second;      ///< since the epoch began, or went on, all ranks
  double test_accuracy =
      -1; ///< in [0, 1] after the last step of an epoch, which is evaluated first
  std::int64_t total_step = 0; ///< over all epochs, the first is 1
  double learning_rate = 0;    ///< of this step
  TrainTimes times = {};
};

/// How a pipeline spent its time: shares of all ranks' time in steps in which they waited.
struct TrainPipeline {
  /// Layers begin to end - 1 of the model, and what one micro-batch took on the way forward and
  /// back, in milliseconds: means over all steps but the first two.
  struct Part {
    std::size_t begin = 0, end = 0;
    double forward = 0, backward = 0;
  };
  std::vector<Part> parts;   ///< part i is on stage i modulo stages; empty: the run had no pipeline
  double idle_even = 0;      ///< if all parts took the same and messages no time: the closed form
  double idle_predicted = 0; ///< simulated, with what the parts take, and no time for messages
  double idle_measured = 0;  ///< from the first pass of a step until all ranks have the loss
};

struct TrainReport {
  double test_accuracy = 0;           ///< over all test samples, in [0, 1]
  std::vector<double> epoch_loss;     ///< mean training loss of each epoch that ended
  std::vector<double> epoch_accuracy; ///< test accuracy after each of them
  /// The gradient noise scale over each epoch of this call, in samples: batches much smaller than
  /// it lose next to nothing by being averaged, much larger ones gain next to nothing (McCandlish
  /// et al., An Empirical Model of Large-Batch Training, 2018). Empty without
  /// TrainOptions::noise_scale; not finite where the gradients are noise alone.
  std::vector<double> epoch_noise_scale;
  std::uint64_t parameter_hash = 0; ///< of all parameters, equal on all ranks
  std::int64_t steps = 0;           ///< of the whole training, with those before resuming
  bool stopped = false;             ///< TrainOptions::stop ended it
  TrainTimes times;                 ///< medians over this call's steps
  double samples_per_second = 0;    ///< in this call's steps, all ranks
  /// That all ranks together send in one step, by the strategy's formula: what cannot be spared,
  /// without headers.
  double bytes_per_step = 0;
  /// Of parameters, gradients and optimizer, that the rank which holds most of them held at most,
  /// counted where they were taken; 0: the strategy does not count.
  std::uint64_t held_bytes = 0;
  TrainPipeline pipeline;
  /// ps: how many times workers read values that lacked 0, 1, 2 ... of the steps of another worker,
  /// measured by their own.
  std::vector<std::uint64_t> staleness;
  /// ps: the share of the values that servers' answers held; below 1 where pushes leave gradients
  /// out (hook "topk") and so not all values change.
  double pulled = 1;
  /// The share of their steps that ranks waited for others, by TrainTimes::communication; the mean
  /// over those that compute.
  double idle = 0;
  double seconds = 0;
};

/// Collective. With the strategy "ddp" each rank trains on its share of every step's samples, and a
/// GradientReducer sums the gradients while the backward pass goes on (BSP); `rondo train --help`
/// has a line for each other strategy, and its file tells what differs from what follows here.
/// After each epoch the test set is evaluated, shared out too. Every rank returns the same report,
/// but for its times.
///
/// Data. Every rank reads its own copy, whole and before the first step. What does not fill an
/// epoch's last step is left out, or as TrainOptions::remainder says. With "uneven" each sample
/// counts once an epoch: the step's gradient is the mean over the samples that there are, so a
/// micro-batch counts by its size and one without samples not at all, neither in the gradient nor
/// in running statistics. (PyTorch's Join divides by all ranks, or by those that have data left,
/// so samples of an incomplete step count less, or those of a small share more.)
///
/// Order. A step's samples depend on (seed, epoch) only. They are split into size() * accumulate
/// micro-batches, of which rank r takes r * accumulate to (r+1) * accumulate - 1: N ranks with A
/// micro-batches see the same ones as 1 rank with N*A. Gradients, and batch norm's running
/// statistics, are summed over micro-batches from left to right, then over ranks, and scaled behind
/// that. So with Options::deterministic N ranks with accumulate 1 train bit for bit as 1 rank with
/// accumulate N does, for every N; other splits (2 ranks with 2 against 1 rank with 4) differ by
/// rounding. Neither bucket_bytes nor overlap changes a bit then. All of this is without a hook,
/// and without sync_batch_norm, by which the split does not matter but for rounding.
///
/// Checkpoints hold all that the next step depends on: a run that was resumed ends with the same
/// bytes as one that was not. Rank 0 alone reads and writes the file. Another number of ranks may
/// go on, if the batch can be split so; not with a hook that keeps residuals of each rank.
/// Model, data, batch, seed, remainder, augment, optimizer and hook must be those of the file, with
/// a hook bucket_bytes, and for ps without bsp consistency's kind and the number of workers; all
/// else may change.
///
/// Threads: layers run on one thread per rank, or on OMP_NUM_THREADS.
///
/// Errors, the same on every rank: data for a missing, damaged or foreign file (named),
/// invalid_argument, mismatch when ranks hold different options, data or parameters, aborted for a
/// loss or parameters that are not finite (the text names step and layer), system for a file that
/// cannot be written (an old checkpoint stays; what is known before the first step is refused then,
/// with the option's name), unsupported in a build without oneDNN and for a precision that the
/// processor has not. Where a rank ends, its peers get peer_dead.
RONDO_API TrainReport train(Communicator& comm, const TrainOptions& options,
                            const std::function<void(const TrainProgress&)>& progress = {});

/// What the strategy has each of so many ranks compute, send and receive in one step, in its order,
/// as text for people. Not collective. Errors as of train(); Error(unsupported) for a strategy that
/// has no such plan.
RONDO_API std::string trainSchedule(const TrainOptions& options, int ranks);
/// Throws Error(unsupported), which says what is missing, for "cuda" where layers cannot run on it
/// (there are all, in float32), and Error(invalid_argument) for what is no device.
RONDO_API void requireTrainDevice(const std::string& device);
/// Throws Error(invalid_argument) for what is none of trainPrecisions(), and Error(unsupported)
/// where this processor has no instructions for it.
RONDO_API void requireTrainPrecision(const std::string& precision);

/// A run among others that differ in some settings only.
struct TrainSweepRun {
  std::string name;     ///< unlike the others'
  std::string settings; ///< what makes it different, for people
  int ranks = 1;
  /// Behind each epoch: seconds of training, and the test accuracy.
  std::vector<double> seconds = {}, accuracy = {};
  std::vector<double> noise_scale = {}; ///< TrainReport::epoch_noise_scale
  std::string ended = {}; ///< why it ended early, as by a loss that is not finite; "": it did not
};
/// Writes a page of HTML that shows the runs beside each other: accuracy against epochs and against
/// time, and the noise scale. Throws Error(system).
RONDO_API void writeTrainSweep(const std::string& path, const std::string& title,
                               const std::vector<TrainSweepRun>& runs);

/// A word that one of the options takes.
struct TrainChoice {
  std::string name, summary;
};
RONDO_API std::vector<TrainChoice> trainModels();
/// Kinds of samples, and what TrainOptions::data says to get them.
RONDO_API std::vector<TrainChoice> trainData();
RONDO_API std::vector<TrainChoice> trainPrecisions();
RONDO_API std::vector<TrainChoice> trainStrategies();
RONDO_API std::vector<TrainChoice> trainPipelines();
RONDO_API std::vector<TrainChoice> trainOptimizers();
RONDO_API std::vector<TrainChoice> trainSchedules();
RONDO_API std::vector<TrainChoice> trainScalings();
/// "topk:DENSITY": the value behind the colon is to be given.
RONDO_API std::vector<TrainChoice> trainHooks();

} // namespace rondo
