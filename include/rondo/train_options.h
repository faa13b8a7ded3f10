// Options of the trainer, and the table that describes each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rondo/export.h"

namespace rondo {

/// The folder of Fashion-MNIST: $RONDO_DATA if that is set, else the folder in which Debian's
/// package dataset-fashion-mnist installs it.
RONDO_API std::string defaultDataFolder();

/// Makes a rank slow on purpose: computation in each of its steps takes `factor` times as long.
struct TrainSlowRank {
  int rank = 0;
  double factor = 1; ///< 1 or more
  bool operator==(const TrainSlowRank&) const = default;
};

/// Makes random steps slow on purpose: with this probability, computation in a rank's step takes
/// `factor` times as long. TrainOptions::seed decides which steps.
struct TrainJitter {
  double probability = 0; ///< in [0, 1]
  double factor = 1;      ///< 1 or more
  bool operator==(const TrainJitter&) const = default;
};

/// Options of a training run. They must be equal on all ranks, except `stop` and the paths of files
/// and folders (`data` and those of `files`). Only rank 0 writes files, but all ranks must agree on
/// whether there is a checkpoint, a report and a trace.
struct TrainOptions {
  std::string model = "mlp"; ///< one of trainModels()
  /// A folder with the *-ubyte files of Fashion-MNIST or MNIST, or with the *.bin files of
  /// CIFAR-10, each with or without gzip compression (.gz); or "synthetic", maybe with settings:
  /// "synthetic:shape=1x28x28,classes=10,train=10000,test=2000,seed=1".
  std::string data = defaultDataFolder();
  /// The device that computes the layers, as requireTrainDevice() takes it. With "cuda" a rank uses
  /// the GPU that RONDO_DEVICE names. If RONDO_DEVICE is not set, the ranks of a machine take the
  /// visible GPUs in turn. Ranks always send from host memory: the communicator's Options::device
  /// is -1.
  std::string device = "cpu";
  /// Type of the numbers that layers multiply, as requireTrainDevice() takes it. Weights, their
  /// gradients and the state of optimizers are always floats, and the hook of `gradients` decides
  /// what ranks send. This is mixed precision (Micikevicius et al., 2018); bfloat16 needs no loss
  /// scaling.
  std::string precision = "float32";
  int epochs = 5;
  /// If not 0, training ends after this many steps, even within an epoch; 0: it ends after
  /// `epochs`.
  std::int64_t steps = 0;
  int batch = 128; ///< samples of one step, of all ranks and micro-batches
  /// Micro-batches per rank and step, whose gradients a rank sums locally. With a pipeline:
  /// micro-batches per step.
  int accumulate = 1;
  std::uint64_t seed = 1; ///< seed of initial weights, sampler, dropout and augmentation
  /// The last step of an epoch may have fewer samples than `batch`. "drop": no such step is made;
  /// "pad": it is filled with the first samples of the epoch; "uneven" (ddp only): it is smaller.
  std::string remainder = "drop";
  /// Number of training samples to use, from the first on; 0: all.
  std::uint64_t limit_samples = 0;
  /// Cross-validation. The training samples are split into `count` parts of equal size at random,
  /// in the same way in every run. Part `number`, 1 to count, becomes the test set and the others
  /// the training set; the test set of `data` is not used. count 0: no folds.
  struct Folds {
    int count = 0, number = 0;
  } folds;
  bool augment = false; ///< flips and crops training samples at random
  /// Batch norm uses the statistics of all ranks' samples instead of each rank's own. This costs
  /// one more sum over the ranks for each such layer and direction.
  bool sync_batch_norm = false;

  /// How the ranks train one model together; one of trainStrategies(). A strategy does not use
  /// every option. An option that is set although the strategy does not use it is an error that
  /// names the option.
  std::string strategy = "ddp";

  /// Strategy ps.
  struct Servers {
    /// Ranks 0 to count - 1, each of which holds a range of the parameters.
    int count = 1;
    bool dedicated = false; ///< servers do not train, but the last rank of an elastic run does
    /// "bsp": all workers are in the same step; "ssp:S": a worker never reads values in which more
    /// than S steps of another worker are missing, compared with its own steps; "asp": no worker
    /// waits for another.
    std::string consistency = "bsp";
  } servers;

  /// Strategy local.
  struct Averaging {
    int period = 8;           ///< steps between two averages
    double slow_momentum = 0; ///< momentum of the averages, in [0, 1)
  } averaging;

  /// Artificial stragglers, to compare strategies: ranks sleep before their steps. Servers (ps) do
  /// not.
  struct Stragglers {
    std::vector<TrainSlowRank> slow;
    TrainJitter jitter;
    /// Shortest time that a rank's step computes, in milliseconds: as if each rank had a core of
    /// its own.
    double pace_ms = 0;
  } stragglers;

  struct Optimizer {
    std::string name = "sgd"; ///< one of trainOptimizers()
    double learning_rate = 0.02;
    /// The batch for which learning_rate was chosen. The learning rate is scaled from this batch to
    /// `batch`, and the warm-up starts at the unscaled rate. 0: no scaling.
    int base_batch = 0;
    std::string scaling = "linear";    ///< how base_batch scales; one of trainScalings()
    std::string schedule = "constant"; ///< of the learning rate; one of trainSchedules()
    int warm_up = 0;                   ///< steps in which the learning rate rises to its full value
    double momentum = 0.9;             ///< sgd and lars
    bool nesterov = false;             ///< sgd: Nesterov's momentum
    double weight_decay = 0;           ///< of matrices and filters, not of biases and norms
    double clip = 0; ///< upper limit of the norm of the whole gradient; 0: no limit
  } optimizer;

  /// How gradients are summed over the ranks, and what is found out about them.
  struct Gradients {
    /// How gradients are sent: one of trainHooks(), followed by ":VALUE" if that hook takes a
    /// value.
    std::string hook = "none";
    /// As GradientOptions::bucket_bytes and ::overlap.
    std::vector<std::size_t> bucket_bytes = {std::size_t{1} << 20, std::size_t{25} << 20};
    bool overlap = true;
    /// Number of communicators, 1 to 16. Buckets use them in turn, so this many buckets can be in
    /// flight at once.
    int groups = 1;
    /// Estimates the gradient noise scale during training, from the gradients of single
    /// micro-batches and their mean. This costs two more passes over the gradients in each step.
    /// Only for ddp with at least two micro-batches.
    bool noise_scale = false;
    /// Every this many steps, after each epoch and at the end, ranks compare the hash of all
    /// parameters and check that all are finite; 0: only at the end. The check reads all
    /// parameters. Made in each step, it would slow a small model down by some percent.
    int verify_every = 50;
  } gradients;

  struct Sharding {
    /// fsdp: layers are joined into units until a unit has this many bytes of weights; 0: each
    /// layer is a unit.
    std::uint64_t unit_bytes = std::uint64_t{128} << 10;
    /// Most bytes of parameters, gradients and optimizer state that a rank may hold; 0: no limit. A
    /// run that needs more is refused before it begins; an elastic one if MIN ranks need more.
    std::uint64_t memory_limit = 0;
    /// Sizes of the axes of a grid of ranks, for example "data=2,shard=2"; neighbouring ranks
    /// differ in the last axis. "": all ranks are on the axis of the strategy.
    std::string mesh;
  } sharding;

  /// Strategy pipeline.
  struct Pipeline {
    std::string order = "1f1b"; ///< of the passes; one of trainPipelines()
    int laps = 2;               ///< order "interleaved": parts of the model per rank
    /// Keeps only the inputs of the model's parts, and computes the activations again before the
    /// backward pass.
    bool recompute = false;
  } pipeline;

  /// Files that rank 0 writes; "": none.
  struct Files {
    std::string checkpoint; ///< also written at the end of the run
    /// Steps between two checkpoints; 0: only at the end, and when the run is stopped.
    int checkpoint_every = 0;
    bool resume = false; ///< continues from the checkpoint
    /// A folder: its index.html shows curves, the parts of a step's time, and the buckets of one
    /// step.
    std::string report;
    /// One line of JSON per step and epoch; a resumed run appends to it. (For ps without bsp, rank
    /// 0 writes the lines of the steps that it finds complete whenever it has completed one of its
    /// own.)
    std::string metrics;
    /// A timeline for ui.perfetto.dev of what ten steps computed and communicated.
    std::string trace;
  } files;

  /// A run that goes on when ranks die or join. A killed rank costs at most the step in flight.
  struct Elastic {
    /// "MIN:MAX", the fewest and the most ranks; "": the death of a rank ends the run.
    std::string ranks;
    /// Strategies in which each rank holds a shard of the state only. 1: the rank before it has a
    /// copy of the shard in memory, renewed in each step. 0: needs files.checkpoint; if a rank
    /// dies, its shard is lost, and all return to the last checkpoint, or to the beginning if none
    /// has been written yet. -1: 1, but 0 for fsdp.
    int redundancy = -1;
    /// A file for the unique id of the run, at which new ranks join: see joinTraining(). The lowest
    /// rank writes it, and only its user may read it; "": no rank can join.
    std::string rendezvous_file;
    /// Seconds that fewer than MIN ranks wait for others to join. Then the run ends.
    double wait = 60;
    /// Called on the lowest rank when fewer than MIN ranks begin to wait: with the number of ranks
    /// that there are, and MIN. Null: never.
    std::function<void(int ranks, int least)> waiting;
    /// This rank is from joinTraining(): it never begins a new run.
    bool joined = false;
  } elastic;

  /// Called on every rank in every step, and on rank 0 while an elastic run waits for ranks, on the
  /// thread that called train(). If one returns true, all ranks end after this step or this wait.
  /// Null: never.
  std::function<bool()> stop;
};

/// A value that an option takes, with a line of description.
struct TrainChoice {
  std::string name, summary;
};

/// The member of TrainOptions that an option sets.
using TrainMember =
    std::variant<std::string*, bool*, int*, std::int64_t*, std::uint64_t*, double*,
                 std::vector<std::size_t>*, std::vector<TrainSlowRank>*, TrainJitter*>;

/// A source is the word "synthetic..." or a folder.
enum class TrainUnit { none, bytes, milliseconds, source, file, folder };

/// Limits of a number, which are valid themselves.
struct TrainRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool operator==(const TrainRange&) const = default;
};

/// A row of the table of options. Flags, help, the JSON report, the page, the comparison of ranks
/// and of checkpoints are made from it.
struct TrainOption {
  std::string_view name; ///< in errors, the JSON report and checkpoints
  std::string_view flag; ///< "--lr"; several names are separated by commas
  std::string_view help; ///< "{}" stands for the choices and their summaries
  TrainMember (*member)(TrainOptions&);
  std::string_view group = {}; ///< heading in the help
  TrainUnit unit = TrainUnit::none;
  TrainRange range = {}; ///< train() refuses other values; numbers only
  TrainRange typed = {}; ///< if limited: values of the flag, where they are fewer
  std::vector<TrainChoice> (*choices)() = nullptr; ///< if set: the valid words
  /// Strategies that accept the option, as "ddp, ps"; empty: all. If `restricted` is set, every
  /// strategy accepts the option, and only the value `restricted` is limited to the strategies
  /// listed here.
  std::string_view strategies = {};
  std::string_view restricted = {};
  std::string_view needs = {}; ///< name of another option without which this one is an error
  bool agreed = true;          ///< must be equal on all ranks
  /// If not empty: ranks agree only on whether one of the options with this text is set.
  std::string_view presence = {};
  /// If not null: whether the run that resumes a checkpoint must have the same value.
  bool (*kept)(const TrainOptions&) = nullptr;
  std::string_view kept_name = {}; ///< in checkpoints, if it is not `name`
  bool in_json = true;
  std::string_view otherwise = {}; ///< added to the error of a strategy that does not accept it

  /// Calls visit() with the value.
  template <class Visitor>
  decltype(auto) read(const TrainOptions& options, const Visitor& visit) const {
    // The member is only read.
    return std::visit([&](const auto* value) -> decltype(auto) { return visit(*value); },
                      member(const_cast<TrainOptions&>(options)));
  }
  RONDO_API bool isFor(std::string_view strategy) const;
  /// Whether it differs from its default.
  RONDO_API bool isSet(const TrainOptions& options) const;
  /// The value as text; a list has one text for each element.
  RONDO_API std::vector<std::string> texts(const TrainOptions& options) const;
};

/// All options except `stop`, in the order of the help. To add an option, add a member to
/// TrainOptions and its row to src/train/option_table.cc.
RONDO_API std::span<const TrainOption> trainOptionTable();

} // namespace rondo
